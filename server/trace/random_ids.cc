#include "server/trace/random_ids.h"

#include <cstddef>

namespace gpupool::server {
namespace {

// Advances the counter and returns the mixed bits of its new value.
uint64_t Advance(std::atomic<uint64_t>& counter) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  uint64_t bits = counter.fetch_add(kStep, std::memory_order_relaxed) + kStep;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// Writes the number in big-endian order.
void WriteBytes(uint64_t number, uint8_t* bytes) {
  for (int i = 7; i >= 0; --i) {
    bytes[i] = static_cast<uint8_t>(number);
    number >>= 8;
  }
}

}  // namespace

uint64_t RandomIds::Next() { return Advance(first_); }

SpanId RandomIds::NextSpan() {
  SpanId id;
  while (!IsSet(id)) WriteBytes(Advance(second_), id.bytes.data());
  return id;
}

TraceId RandomIds::TraceEndingWith(uint64_t low) {
  TraceId id;
  WriteBytes(low, id.bytes.data() + 8);
  do {
    WriteBytes(Advance(second_), id.bytes.data());
  } while (!IsSet(id));
  return id;
}

}  // namespace gpupool::server
