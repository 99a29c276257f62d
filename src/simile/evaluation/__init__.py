"""How good is it: beside the expert, beside rivals, and on a page."""
