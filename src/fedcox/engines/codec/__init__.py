"""The wire format: questions and replies as bytes, and back, checked on both sides.

In layers: `tree.py` has the bytes of plain values and arrays, `records.py` those of the closed
list of types, `questions.py` and `replies.py` a round. The envelope around it, with the
version, is `engines/nvflare/messages.py`; messages of secure sums are `privacy/messages.py`.
"""
