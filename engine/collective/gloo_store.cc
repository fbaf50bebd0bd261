#include "engine/collective/gloo_store.h"

#include <gloo/common/error.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace gpupool::engine {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(5);

[[noreturn]] void Throw(const absl::Status& status) {
  throw ::gloo::IoException(std::string(status.message()));
}

}  // namespace

absl::StatusOr<std::string> AwaitKey(RendezvousStore& store,
                                     absl::string_view key, absl::Time deadline,
                                     const std::atomic<bool>& cancelled) {
  while (true) {
    absl::StatusOr<std::string> text = store.Get(key);
    if (text.ok() || !absl::IsNotFound(text.status())) return text;
    if (cancelled) {
      return absl::CancelledError(
          absl::StrCat("waiting for rendezvous key ", key, " was cancelled"));
    }
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("rendezvous key ", key, " was not set in time"));
    }
    // The store cannot notify, so the key is polled.
    absl::SleepFor(kPollInterval);
  }
}

void GlooStore::set(const std::string& key, const std::vector<char>& data) {
  const absl::Status status =
      store_->Set(prefix_ + key, absl::string_view(data.data(), data.size()));
  if (!status.ok()) Throw(status);
}

std::vector<char> GlooStore::get(const std::string& key) {
  const absl::StatusOr<std::string> text =
      AwaitKey(*store_, prefix_ + key, deadline_, cancelled_);
  if (!text.ok()) Throw(text.status());
  return {text->begin(), text->end()};
}

void GlooStore::wait(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) get(key);
}

void GlooStore::wait(const std::vector<std::string>& keys,
                     const std::chrono::milliseconds& /*timeout*/) {
  wait(keys);
}

}  // namespace gpupool::engine
