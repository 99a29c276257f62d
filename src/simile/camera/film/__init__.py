"""Looking at a game: framing, a page or a film from above, and a view cut out of a panorama."""
