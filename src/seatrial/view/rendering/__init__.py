"""Files of strangers as HTML that can do no harm, by their format."""
