"""Pictures of numbers as SVG: values in, text out. Colours and type are the page's, by the classes of what is drawn."""
