"""`seatrial view`: jobs, trials and reviews as pages in a browser, on this machine."""
