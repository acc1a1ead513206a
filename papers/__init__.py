"""The laboratory: tables of five papers measured again; not part of the installed package."""
