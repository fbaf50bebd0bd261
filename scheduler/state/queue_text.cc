#include "scheduler/state/queue_text.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "scheduler/state/queues.h"

namespace gpupool::scheduler {
namespace {

absl::Status Wrong(absl::string_view queue, absl::string_view what,
                   absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("queue '", queue, "': ", what, "; ", allowed));
}

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > 128 || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

// What is allowed; empty when it was set.
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
  queue->preempts = value == "yes";
  return value == "yes" || value == "no" ? "" : "must be yes or no";
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
  const bool ok = std::all_of(queue->tenants.begin(), queue->tenants.end(),
                              [](const auto& name) { return IsName(name); });
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

absl::Status Set(absl::string_view text, Queue* queue) {
  const std::pair<absl::string_view, absl::string_view> pair =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  const absl::string_view key = absl::StripAsciiWhitespace(pair.first);
  const absl::string_view value = absl::StripAsciiWhitespace(pair.second);
  const std::string given = absl::StrCat(key, "=", value);
  for (const Field& field : kFields) {
    if (field.key != key) continue;
    const Refusal refusal = field.set(value, queue);
    if (refusal.empty()) return absl::OkStatus();
    return Wrong(queue->name, given, refusal);
  }
  return Wrong(queue->name, given,
               "known are order=, rank=, preempts=, devices=, most=, tenants=, "
               "hysteresis= and min-run=");
}

absl::StatusOr<Queue> Parse(absl::string_view text, const QueuePolicy& rest) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  Queue queue{.order = rest.order,
              .hysteresis = rest.hysteresis,
              .min_run = rest.min_run};
  queue.name = std::string(absl::StripAsciiWhitespace(parts.first));
  if (!IsName(queue.name)) {
    return Wrong(queue.name, "is no name",
                 "names have letters, digits, '-', '_' and '.'");
  }
  if (absl::StripAsciiWhitespace(parts.second).empty()) return queue;
  for (absl::string_view field : absl::StrSplit(parts.second, ',')) {
    absl::Status set = Set(field, &queue);
    if (!set.ok()) return set;
  }
  return queue;
}

}  // namespace

absl::StatusOr<std::vector<Queue>> ParseQueues(absl::string_view text,
                                               const QueuePolicy& rest) {
  std::vector<Queue> queues;
  for (absl::string_view one : absl::StrSplit(text, ';')) {
    if (absl::StripAsciiWhitespace(one).empty()) continue;
    absl::StatusOr<Queue> queue = Parse(one, rest);
    if (!queue.ok()) return queue.status();
    const bool is_there =
        std::any_of(queues.begin(), queues.end(),
                    [&](const Queue& q) { return q.name == queue->name; });
    if (is_there) {
      return Wrong(queue->name, "is there twice", "write all of it once");
    }
    queues.push_back(*std::move(queue));
    // With the default beside them.
    if (queues.size() >= kMostQueues) {
      return absl::InvalidArgumentError(absl::StrCat(
          "more than ", kMostQueues - 1, " queues beside the default"));
    }
  }
  return queues;
}

}  // namespace gpupool::scheduler
