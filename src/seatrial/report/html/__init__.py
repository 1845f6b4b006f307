"""The report as one HTML file that needs no network: sections as values, a template, and a list of trials."""
