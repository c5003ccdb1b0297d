"""The value `Soup`: members with their traces, template and encoder id, loaded from JSON and saved."""
