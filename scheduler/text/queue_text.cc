#include "scheduler/text/queue_text.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "scheduler/state/queues.h"

namespace gpupool::scheduler {
namespace {

// The rule that a value breaks; empty when the value was set.
using Refusal = std::string;

Refusal SetOrder(absl::string_view value, Queue* queue) {
  const absl::StatusOr<Order> order = ParseOrder(value);
  if (!order.ok()) return std::string(order.status().message());
  queue->order = *order;
  return "";
}

Refusal SetRank(absl::string_view value, Queue* queue) {
  const bool ok = absl::SimpleAtoi(value, &queue->rank) &&
                  queue->rank >= -kMostRank && queue->rank <= kMostRank;
  return ok ? ""
            : absl::StrCat("a rank is from -", kMostRank, " to ", kMostRank);
}

Refusal SetPreempts(absl::string_view value, Queue* queue) {
  // YAML writes the same words in two ways.
  const bool no = value == "no" || value == "false";
  queue->preempts = value == "yes" || value == "true";
  return queue->preempts || no ? "" : "must be yes or no";
}

Refusal SetHysteresis(absl::string_view value, Queue* queue) {
  const bool ok = absl::SimpleAtod(value, &queue->hysteresis) &&
                  queue->hysteresis >= 1 && queue->hysteresis <= 1000;
  return ok ? "" : "must be a number 1 .. 1000";
}

Refusal SetMinRun(absl::string_view value, Queue* queue) {
  uint32_t seconds = 0;
  if (!absl::SimpleAtoi(value, &seconds) || seconds > 86400) {
    return "must be a number of seconds 0 .. 86400";
  }
  queue->min_run = absl::Seconds(seconds);
  return "";
}

Refusal SetMost(absl::string_view value, Queue* queue) {
  uint32_t devices = 0;
  if (!absl::SimpleAtoi(value, &devices) || devices < 1 ||
      devices > kMostQueueDevices) {
    return absl::StrCat("a number of devices is from 1 to ", kMostQueueDevices);
  }
  queue->most = devices;
  return "";
}

Refusal SetDevices(absl::string_view value, Queue* queue) {
  queue->devices = absl::StrSplit(value, '+');
  for (const std::string& device : queue->devices) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(device, absl::MaxSplits(':', 1));
    uint32_t number = 0;
    const bool is_kind = parts.first == "cpu" || parts.first == "cuda";
    const bool is_device =
        device == parts.first || absl::SimpleAtoi(parts.second, &number);
    if (!is_kind || !is_device) {
      return "name devices or kinds with + between them, as in "
             "cuda:0+cuda:1+cpu";
    }
  }
  return "";
}

Refusal SetTenants(absl::string_view value, Queue* queue) {
  queue->tenants = absl::StrSplit(value, '+');
  const bool ok =
      std::all_of(queue->tenants.begin(), queue->tenants.end(),
                  [](const auto& name) { return IsEntryName(name); });
  return ok ? ""
            : "name tenants with + between them, as in shop+research.vision";
}

struct Field {
  absl::string_view key;
  Refusal (*set)(absl::string_view value, Queue* queue);
};
constexpr Field kFields[] = {
    {"order", SetOrder},
    {"rank", SetRank},
    {"preempts", SetPreempts},
    {"devices", SetDevices},
    {"most", SetMost},
    {"tenants", SetTenants},
    {"hysteresis", SetHysteresis},
    {"min-run", SetMinRun},
};

std::string KnownKeys() {
  return absl::StrCat(
      "known are ",
      absl::StrJoin(kFields, ", ", [](std::string* out, const Field& field) {
        absl::StrAppend(out, field.key, "=");
      }));
}

absl::Status SetField(const NamedWords& entry, const NamedWords::Word& word,
                      Queue* queue) {
  const std::string given = absl::StrCat(word.key, "=", word.value, word.where);
  for (const Field& field : kFields) {
    if (field.key != word.key) continue;
    const Refusal refusal = field.set(word.value, queue);
    if (refusal.empty()) return absl::OkStatus();
    return WrongEntry("queue", entry, given, refusal);
  }
  return WrongEntry("queue", entry, given, KnownKeys());
}

absl::StatusOr<Queue> Make(const NamedWords& entry, const QueuePolicy& rest) {
  Queue queue{.name = entry.name,
              .order = rest.order,
              .hysteresis = rest.hysteresis,
              .min_run = rest.min_run};
  if (!IsEntryName(queue.name)) {
    return WrongEntry("queue", entry, "is no name",
                      "names have letters, digits, '-', '_' and '.'");
  }
  for (const NamedWords::Word& word : entry.words) {
    absl::Status set = SetField(entry, word, &queue);
    if (!set.ok()) return set;
  }
  return queue;
}

}  // namespace

absl::StatusOr<std::vector<Queue>> MakeQueues(
    const std::vector<NamedWords>& entries, const QueuePolicy& rest) {
  // The list may have kMostQueues entries together with `default`.
  if (entries.size() >= kMostQueues) {
    return absl::InvalidArgumentError(absl::StrCat(
        "more than ", kMostQueues - 1, " queues beside the default"));
  }
  std::vector<Queue> queues;
  for (const NamedWords& entry : entries) {
    absl::StatusOr<Queue> queue = Make(entry, rest);
    if (!queue.ok()) return queue.status();
    const bool is_there =
        std::any_of(queues.begin(), queues.end(),
                    [&](const Queue& q) { return q.name == queue->name; });
    if (is_there) {
      return WrongEntry("queue", entry, "is there twice",
                        "write all of it once");
    }
    queues.push_back(*std::move(queue));
  }
  return queues;
}

absl::StatusOr<std::vector<Queue>> ParseQueues(absl::string_view text,
                                               const QueuePolicy& rest) {
  return MakeQueues(SplitNamedWords(text), rest);
}

}  // namespace gpupool::scheduler
