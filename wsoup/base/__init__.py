"""What can only refuse, name or locate: errors, argument checks, URLs, wsoup's own files."""
