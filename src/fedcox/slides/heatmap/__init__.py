"""What a slide's score is made of, as a picture: tiles, colours, outlines, pages."""
