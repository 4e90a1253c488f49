"""What `/metrics` shows after something happened."""

from prometheus_client.parser import text_string_to_metric_families

from shoal.telemetry.metrics import GatewayMetrics, Metrics, WorkerMetrics
from shoal.wire.queue import Timings


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_a_gateway_counts_requests_by_route_and_status() -> None:
    metrics = GatewayMetrics()
    metrics.request("/v1/embeddings", 200, 0.004)
    metrics.request("/v1/embeddings", 429, 0.001)
    metrics.error("overloaded")
    metrics.answered("bge", items=3, tokens=40)
    metrics.outstanding_seconds("bge", work_s=1.5, queued_s=0.5, bulk_s=7.0)
    metrics.outstanding_units(2)
    metrics.broker_connected(True)
    metrics.duplicate_reply()
    seen = samples(metrics)
    assert seen["shoal_gateway_requests_total", ("/v1/embeddings", "200")] == 1
    assert seen["shoal_gateway_requests_total", ("/v1/embeddings", "429")] == 1
    assert seen["shoal_gateway_request_seconds_count", ("/v1/embeddings",)] == 2
    assert seen["shoal_gateway_request_seconds_bucket", ("0.001", "/v1/embeddings")] == 1
    assert seen["shoal_gateway_errors_total", ("overloaded",)] == 1
    assert seen["shoal_gateway_tokens_total", ("bge",)] == 40
    assert seen["shoal_gateway_items_total", ("bge",)] == 3
    where = {k[1][1]: v for k, v in seen.items() if k[0] == "shoal_gateway_outstanding_seconds"}
    assert where == {"queue": 0.5, "gateway": 1.0, "bulk": 7.0}
    assert seen["shoal_gateway_outstanding_units", ()] == 2
    assert seen["shoal_gateway_broker_connected", ()] == 1
    assert seen["shoal_gateway_duplicate_replies_total", ()] == 1


def test_a_worker_shows_padding_waste_and_how_wrong_its_predictions_are() -> None:
    metrics = WorkerMetrics()
    metrics.batch("bge", items=8, tokens=100, computed_tokens=120, fill=0.8)
    metrics.predicted("bge", predicted_s=0.015, actual_s=0.010)
    seen = samples(metrics)
    assert seen["shoal_worker_tokens_total", ("bge",)] == 100
    assert seen["shoal_worker_computed_tokens_total", ("bge",)] == 120
    assert seen["shoal_worker_batch_items_sum", ("bge",)] == 8
    assert seen["shoal_worker_batch_tokens_sum", ("bge",)] == 100
    assert seen["shoal_worker_batch_fill_ratio_sum", ("bge",)] == 0.8
    assert round(seen["shoal_worker_prediction_error_ratio_sum", ("bge",)], 6) == 0.5
    assert seen["shoal_worker_compute_seconds_sum", ("bge",)] == 0.010


def test_a_worker_accounts_for_units_pulls_and_loads() -> None:
    metrics = WorkerMetrics()
    metrics.delivered(1)
    metrics.delivered(2)
    metrics.unit("bge", "answered", Timings(queue_s=0.1, prepare_s=0.2, wait_s=0.3))
    metrics.unit("bge", "returned")
    metrics.dead_letter("bge")
    metrics.units_held(4)
    metrics.pull("filled")
    metrics.resident_models(2)
    metrics.loaded("cpu", "bge", 1024, 1.2)
    metrics.load_failed("bge")
    seen = samples(metrics)
    assert seen["shoal_worker_redeliveries_total", ()] == 1
    assert seen["shoal_worker_units_total", ("bge", "answered")] == 1
    assert seen["shoal_worker_units_total", ("bge", "returned")] == 1
    assert seen["shoal_worker_queue_seconds_sum", ("bge",)] == 0.1
    assert seen["shoal_worker_prepare_seconds_sum", ("bge",)] == 0.2
    assert seen["shoal_worker_wait_seconds_sum", ("bge",)] == 0.3
    assert seen["shoal_worker_dead_letters_total", ("bge",)] == 1
    assert seen["shoal_worker_units_held", ()] == 4
    assert seen["shoal_worker_pulls_total", ("filled",)] == 1
    assert seen["shoal_worker_resident_models", ()] == 2
    assert seen["shoal_worker_resident_bytes", ("cpu", "bge")] == 1024
    assert seen["shoal_worker_loads_total", ("bge", "loaded")] == 1
    assert seen["shoal_worker_loads_total", ("bge", "failed")] == 1
    assert seen["shoal_worker_load_seconds_count", ("bge",)] == 1
    metrics.lost("cpu", {"bge", "other"})
    assert samples(metrics)["shoal_worker_resident_bytes", ("cpu", "bge")] == 0


def test_two_processes_in_one_do_not_share_a_registry() -> None:
    first, second = GatewayMetrics(), GatewayMetrics()
    first.duplicate_reply()
    assert samples(second)["shoal_gateway_duplicate_replies_total", ()] == 0
