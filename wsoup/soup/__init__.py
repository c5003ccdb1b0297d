"""The value `Soup`: members with their traces, template, encoder id; load, save, show, export."""
