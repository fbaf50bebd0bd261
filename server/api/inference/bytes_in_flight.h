// A bound on the bytes of requests in flight, so that many large requests are
// refused instead of filling the memory.
//
// Thread-safety: any thread. The gate must outlive its tickets.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace gpupool::server {

class BytesInFlight {
 public:
  // The admission of one request. Gives its bytes back when destroyed.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), bytes_(other.bytes_) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(gate_, other.gate_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Ticket() {
      if (gate_ != nullptr) gate_->used_.fetch_sub(bytes_);
    }

   private:
    friend class BytesInFlight;
    Ticket(BytesInFlight* gate, uint64_t bytes) : gate_(gate), bytes_(bytes) {}
    BytesInFlight* gate_;
    uint64_t bytes_;
  };

  explicit BytesInFlight(uint64_t limit) : limit_(limit) {}

  // Returns a ticket, or nothing when the bytes do not fit beside those in
  // flight. A single request larger than the limit never fits.
  std::optional<Ticket> Admit(uint64_t bytes) {
    asked_.fetch_add(bytes);
    uint64_t used = used_.load();
    do {
      if (bytes > limit_ || used > limit_ - bytes) return std::nullopt;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return Ticket(this, bytes);
  }

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(); }
  // Returns the bytes of all calls of Admit, modulo 2^64.
  uint64_t asked() const { return asked_.load(); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> asked_{0};
};

}  // namespace gpupool::server
