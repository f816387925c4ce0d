"""W3C trace context through message headers. Spans exist only when an exporter is configured; the context always travels."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog

_FORMAT = re.compile(r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")
_current: ContextVar[str] = ContextVar("traceparent", default="")


def new_traceparent() -> str:
    """Start a trace: version 00, random ids, sampled."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def accept(header: str | None) -> str:
    """Return a caller's trace context if it is well formed, else a new one."""
    return header if header and _FORMAT.match(header) else new_traceparent()


def child_of(traceparent: str) -> str:
    """Return the context of a new span of the same trace, or of a new one where there is none: no work may fail for it."""
    version, trace, _, flags = accept(traceparent).split("-")
    return f"{version}-{trace}-{secrets.token_hex(8)}-{flags}"


def current() -> str:
    """Return the context of what runs now; empty outside of any."""
    return _current.get()


def adopt(header: str | None) -> None:
    """Make a caller's trace context, if it is well formed, that of the present task."""
    if header and _FORMAT.match(header):
        _current.set(header)


@contextmanager
def span(name: str, traceparent: str, **attributes: str | int | float) -> Iterator[str]:
    """Run a piece of work as a span of a trace: binds the trace id to the log lines and exports it when configured."""
    parent = accept(traceparent)
    with contextlib.ExitStack() as stack:
        own = child_of(parent) if _exporter is None else stack.enter_context(_exporter(name, parent, attributes))
        stack.enter_context(structlog.contextvars.bound_contextvars(trace_id=own.split("-")[1]))
        token = _current.set(own)
        try:
            yield own
        finally:
            _current.reset(token)


_exporter: _Exporter | None = None


class _Exporter:
    """Makes OpenTelemetry spans; imported only when an endpoint is configured, because the SDK costs start-up time."""

    def __init__(self, service: str, endpoint: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = provider.get_tracer("hermes")

    @contextmanager
    def __call__(self, name: str, parent: str, attributes: dict[str, str | int | float]) -> Iterator[str]:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator, carrier = TraceContextTextMapPropagator(), dict[str, str]()
        context = propagator.extract({"traceparent": parent})
        with self._tracer.start_as_current_span(name, context=context, attributes=attributes):
            propagator.inject(carrier)
            yield carrier["traceparent"]


def configure_tracing(service: str, endpoint: str) -> None:
    """Export spans to an OTLP/HTTP endpoint; an empty endpoint leaves tracing off."""
    global _exporter
    if endpoint:
        _exporter = _Exporter(service, endpoint)
