#include "server/trace/otlp_messages.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "engine/base/utf8.h"

namespace gpupool::server {
namespace {

constexpr char kScopeName[] = "gpupool";

// Bits of Span.flags.
constexpr uint32_t kSampledBit = 0x1;
constexpr uint32_t kKnowsParentPlace = 0x100;
constexpr uint32_t kRemoteParent = 0x200;

// Returns the text as messages may have it.
std::string SendableText(const std::string& text) {
  if (engine::IsUtf8(text)) {
    return std::string(engine::CutUtf8(text, kLongestSpanText));
  }
  std::string ascii = text.substr(0, kLongestSpanText);
  std::replace_if(
      ascii.begin(), ascii.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; }, '?');
  return ascii;
}

uint64_t NanosOf(absl::Time time) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixNanos(time)));
}

void AddText(const char* key, const std::string& value,
             otlp::v1::Resource* resource) {
  otlp::v1::KeyValue* attribute = resource->add_attributes();
  attribute->set_key(key);
  attribute->mutable_value()->set_string_value(SendableText(value));
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

void FillResource(const TraceResource& from, otlp::v1::Resource* resource) {
  AddText("service.name", from.service_name, resource);
  AddText("service.version", from.service_version, resource);
  AddText("service.instance.id", from.instance_id, resource);
  AddText("host.name", HostName(), resource);
  otlp::v1::KeyValue* pid = resource->add_attributes();
  pid->set_key("process.pid");
  pid->mutable_value()->set_int_value(getpid());
}

void FillValue(const SpanAttribute& from, otlp::v1::AnyValue* value) {
  if (const auto* number = std::get_if<int64_t>(&from.value)) {
    value->set_int_value(*number);
  } else if (const auto* real = std::get_if<double>(&from.value)) {
    value->set_double_value(*real);
  } else {
    value->set_string_value(SendableText(std::get<std::string>(from.value)));
  }
}

void FillSpan(const Span& from, otlp::v1::Span* span) {
  span->set_trace_id(from.trace.bytes.data(), from.trace.bytes.size());
  span->set_span_id(from.id.bytes.data(), from.id.bytes.size());
  if (IsSet(from.parent)) {
    span->set_parent_span_id(from.parent.bytes.data(),
                             from.parent.bytes.size());
  }
  span->set_trace_state(from.state);
  span->set_flags(kSampledBit | kKnowsParentPlace |
                  (from.remote_parent ? kRemoteParent : 0));
  span->set_name(from.name.data(), from.name.size());
  span->set_kind(from.kind == Span::Kind::kServer ? otlp::v1::Span::SERVER
                                                  : otlp::v1::Span::INTERNAL);
  span->set_start_time_unix_nano(NanosOf(from.start));
  span->set_end_time_unix_nano(NanosOf(std::max(from.start, from.end)));
  for (const SpanAttribute& attribute : from.attributes) {
    otlp::v1::KeyValue* added = span->add_attributes();
    added->set_key(attribute.key.data(), attribute.key.size());
    FillValue(attribute, added->mutable_value());
  }
  if (!from.failed) return;
  span->mutable_status()->set_code(otlp::v1::SpanStatus::ERROR);
  span->mutable_status()->set_message(SendableText(from.error));
}

}  // namespace

void FillRequest(const TraceResource& resource, absl::Span<const Span> spans,
                 otlp::v1::ExportTraceRequest* request) {
  otlp::v1::ResourceSpans* all = request->add_resource_spans();
  FillResource(resource, all->mutable_resource());
  otlp::v1::ScopeSpans* scope = all->add_scope_spans();
  scope->mutable_scope()->set_name(kScopeName);
  scope->mutable_scope()->set_version(resource.service_version);
  scope->mutable_spans()->Reserve(static_cast<int>(spans.size()));
  for (const Span& span : spans) FillSpan(span, scope->add_spans());
}

}  // namespace gpupool::server
