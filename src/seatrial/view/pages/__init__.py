"""Pages: each module has functions that make the HTML of its pages, and the routes that lead to them."""
