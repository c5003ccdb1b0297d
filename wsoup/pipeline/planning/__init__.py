"""What a run would take: texts, images, hours, memory."""
