"""Tables of data: reading, encoding and splitting them."""
