#include "server/device_list.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

constexpr uint32_t kMostGpuIndex = 9999;
constexpr char kExamples[] = "write auto, cpu:1, cuda, cuda:0,1 or cuda,cpu:1";

struct ForeignName {
  absl::string_view prefix;
  absl::string_view advice;
};

// Names of devices in other programs.
constexpr ForeignName kForeignNames[] = {
    {"gpu", "GPUs are called cuda; write cuda for all or cuda:0 for the first"},
    {"nvidia",
     "GPUs are called cuda; write cuda for all or cuda:0 for the first"},
    {"mps", "there is no Apple GPU back end; write cpu:1"},
    {"metal", "there is no Apple GPU back end; write cpu:1"},
    {"rocm", "there is no AMD GPU back end; write cpu:1"},
    {"hip", "there is no AMD GPU back end; write cpu:1"},
    {"xpu", "there is no Intel GPU back end; write cpu:1"},
    {"tpu", "there is no TPU back end; write cpu:1"},
};

absl::Status Refusal(absl::string_view advice) {
  return absl::InvalidArgumentError(advice);
}

absl::Status UnknownWord(absl::string_view word) {
  const std::string lower = absl::AsciiStrToLower(word);
  for (const ForeignName& name : kForeignNames) {
    if (absl::StartsWith(lower, name.prefix)) return Refusal(name.advice);
  }
  return Refusal(absl::StrCat("\"", word, "\" is not a device; ", kExamples));
}

// Adds "cpu:COUNT". The error explains that it is a count, not an index.
absl::Status AddCpuDevices(absl::string_view count, DeviceList* list) {
  uint32_t number = 0;
  if (count == "0" || count.empty()) {
    return Refusal(
        "cpu:N is a number of virtual devices; write cpu:1 for one, cpu:2 for "
        "two");
  }
  if (!absl::SimpleAtoi(count, &number) || number > kMaxCpuDevices) {
    return Refusal(absl::StrCat("cpu:", count,
                                ": cpu:N is a number of virtual devices, 1 .. ",
                                kMaxCpuDevices));
  }
  if (list->cpu_devices != 0) {
    return Refusal(
        absl::StrCat("cpu:N is written twice; write cpu:",
                     std::min(list->cpu_devices + number, kMaxCpuDevices),
                     " for all of them"));
  }
  list->cpu_devices = number;
  return absl::OkStatus();
}

// Adds "cuda:INDEX", or a bare index after one.
absl::Status AddGpu(absl::string_view index, DeviceList* list) {
  uint32_t number = 0;
  if (absl::StrContains(index, '-')) {
    return Refusal(absl::StrCat("cuda:", index,
                                " is not the index of a GPU; write each index, "
                                "as in cuda:0,1,2,3, or cuda for all GPUs"));
  }
  // Checked by hand, because SimpleAtoi also takes spaces and a plus sign.
  const bool has_digits =
      !index.empty() && absl::c_all_of(index, absl::ascii_isdigit);
  if (has_digits && index != "0" && index.front() == '0') {
    return Refusal(absl::StrCat("cuda:", index,
                                " has leading zeros; write the index of a GPU "
                                "without them, as in cuda:0 or cuda:1"));
  }
  if (has_digits &&
      (!absl::SimpleAtoi(index, &number) || number > kMostGpuIndex)) {
    return Refusal(absl::StrCat("cuda:", index,
                                " names no GPU: the index of a GPU is 0 .. ",
                                kMostGpuIndex));
  }
  if (!has_digits) {
    return Refusal(absl::StrCat(
        "cuda:", index,
        " names no GPU; write cuda:0 for the first, cuda for all GPUs"));
  }
  if (std::count(list->gpus.begin(), list->gpus.end(), number) != 0) {
    return Refusal(
        absl::StrCat("cuda:", number, " is named twice; name it once"));
  }
  list->gpus.push_back(number);
  return absl::OkStatus();
}

// Adds one item. `last_has_index`: the item before it names a GPU by index.
absl::Status AddWord(absl::string_view word, bool* last_has_index,
                     DeviceList* list) {
  const bool may_be_index = *last_has_index;
  absl::string_view rest = word;
  const bool has_digit = !word.empty() && absl::ascii_isdigit(word.front());
  *last_has_index =
      absl::ConsumePrefix(&rest, "cuda:") || (has_digit && may_be_index);
  if (*last_has_index) return AddGpu(rest, list);
  if (has_digit) {
    return Refusal(absl::StrCat("a bare number may only follow a GPU, as in ",
                                "cuda:0,1; write cuda:", word,
                                " for the GPU with that index"));
  }
  if (word == "cuda") {
    list->all_gpus = true;
    return absl::OkStatus();
  }
  if (word == "cpu") return AddCpuDevices("", list);
  if (absl::ConsumePrefix(&rest, "cpu:")) return AddCpuDevices(rest, list);
  if (word == "auto") {
    return Refusal(
        "auto cannot be combined; write cuda,cpu:1 for all GPUs and one "
        "virtual CPU device");
  }
  return UnknownWord(word);
}

}  // namespace

absl::StatusOr<DeviceList> ParseDeviceList(absl::string_view words) {
  DeviceList list;
  if (absl::StripAsciiWhitespace(words) == "auto") {
    list.automatic = true;
    return list;
  }
  bool last_has_index = false;
  for (const absl::string_view word : absl::StrSplit(words, ',')) {
    RETURN_IF_ERROR(
        AddWord(absl::StripAsciiWhitespace(word), &last_has_index, &list));
  }
  if (list.all_gpus && !list.gpus.empty()) {
    return Refusal(absl::StrCat("cuda means all GPUs; leave cuda:",
                                list.gpus.front(), " out or leave cuda out"));
  }
  return list;
}

bool MayMeanGpus(absl::string_view words) {
  const auto list = ParseDeviceList(words);
  if (!list.ok()) return false;
  return list->automatic || list->all_gpus || !list->gpus.empty();
}

}  // namespace gpupool::server
