"""Rules for functions of `tl`: the types of their results, and arguments that Triton refuses."""

from kb_triton.checking.functions_of_tl.calls import call_of_object, call_of_tl, is_method

__all__ = ["call_of_object", "call_of_tl", "is_method"]
