"""What watches a run: the op log's recorder and the tracer."""
