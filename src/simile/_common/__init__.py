"""What every room needs: checks of arguments, files, text, plots, pages, exact sums."""
