"""Algorithm 1, the choices it leaves open, and the mixture that is the default."""

# By name, as commands, pages and configurations ask for them: functions of `simile.learning.algorithms`. They stand
# here, where nothing heavy is imported.
ALGORITHMS = ("learn", "paper", "authors", "searn", "smile", "dagger", "coach", "clone")
