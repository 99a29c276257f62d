"""Run the Python blocks of the README and the docs as tests: what they claim must be true."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"], excludes=["CHANGELOG.md"]).pytest()
