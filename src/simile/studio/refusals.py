"""What the studio answers when it does not do what it was asked for: a status and a sentence, never a traceback."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - the studio is fine; the request is not
    """A request that cannot be answered.

    Parameters
    ----------
    status : int
        Of HTTP, 400 to 599.
    sentence : str
        For the person before the page: what is wrong, and the way out.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
