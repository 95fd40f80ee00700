from kb_engine.block.pe_roles import CompletionQueue
from kb_messages import CompletionRecord


def record(seq):
    return CompletionRecord(command_seq=seq, pe="pe0", t_ps=10 * seq, n_tiles=1)


def test_records_are_taken_in_the_order_in_which_they_were_published():
    queue = CompletionQueue()
    for seq in (2, 0, 1):
        queue.publish(record(seq))
    assert len(queue) == 3
    assert [queue.take() for _ in range(4)] == [record(2), record(0), record(1), None]


def test_the_consumer_is_called_after_each_record():
    queue, taken = CompletionQueue(), []
    queue.read_by(lambda: taken.append(queue.take()))
    queue.publish(record(5))
    queue.publish(record(3))
    assert taken == [record(5), record(3)]
    assert len(queue) == 0
