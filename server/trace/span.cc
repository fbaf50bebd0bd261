#include "server/trace/span.h"

namespace gpupool::server {

// g++ 12 warns falsely of an attribute that is moved into the vector, so each
// is filled in where it stands.
void AddAttribute(Span* span, absl::string_view key, absl::string_view value) {
  SpanAttribute& attribute = span->attributes.emplace_back();
  attribute.key = key;
  attribute.value = std::string(value);
}

void AddAttribute(Span* span, absl::string_view key, int64_t value) {
  SpanAttribute& attribute = span->attributes.emplace_back();
  attribute.key = key;
  attribute.value = value;
}

void AddAttribute(Span* span, absl::string_view key, double value) {
  SpanAttribute& attribute = span->attributes.emplace_back();
  attribute.key = key;
  attribute.value = value;
}

}  // namespace gpupool::server
