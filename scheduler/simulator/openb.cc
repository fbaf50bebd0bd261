#include "scheduler/simulator/openb.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "scheduler/simulator/random.h"
#include "scheduler/simulator/trace.h"

namespace gpupool::scheduler {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kMostCores = 1'000'000;  // limit of a machine
// A product with kMiB must stay below 64 bits.
constexpr uint64_t kMostMib = uint64_t{1} << 30;
constexpr uint32_t kMostPerNode = 1024;

// A line, read by the names of its columns.
class Row {
 public:
  Row(const std::vector<std::string>& names, size_t line,
      absl::string_view text)
      : names_(names), line_(line), fields_(absl::StrSplit(text, ',')) {}

  absl::string_view Text(absl::string_view column) const {
    // The columns may stand in any order.
    const auto name = std::find(names_.begin(), names_.end(), column);
    const auto at = static_cast<size_t>(name - names_.begin());
    // `at` is the number of names if there is no such column, and short lines
    // lack fields.
    if (at >= fields_.size()) return "";
    return absl::StripAsciiWhitespace(fields_[at]);
  }
  absl::StatusOr<uint64_t> Number(absl::string_view column,
                                  uint64_t most) const {
    uint64_t value = 0;
    if (absl::SimpleAtoi(Text(column), &value) && value <= most) return value;
    return Bad(column, absl::StrCat("a whole number from 0 to ", most));
  }
  absl::Status Bad(absl::string_view column, absl::string_view allowed) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_, ": ", column, " is '",
                     Text(column).substr(0, 40), "'; it must be ", allowed));
  }

 private:
  const std::vector<std::string>& names_;
  size_t line_;
  std::vector<absl::string_view> fields_;
};

absl::Status ForEachRow(absl::string_view csv, absl::string_view what,
                        std::initializer_list<absl::string_view> columns,
                        absl::FunctionRef<absl::Status(const Row&)> take) {
  std::vector<std::string> names;
  size_t line = 0;
  size_t rows = 0;
  for (absl::string_view text : absl::StrSplit(csv, '\n')) {
    ++line;
    text = absl::StripAsciiWhitespace(text);
    if (text.empty()) continue;
    // The first line that is not blank names the columns.
    if (names.empty()) {
      for (absl::string_view name : absl::StrSplit(text, ',')) {
        names.emplace_back(absl::StripAsciiWhitespace(name));
      }
      for (absl::string_view column : columns) {
        if (std::count(names.begin(), names.end(), column) > 0) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "the first line of the ", what, " names no column '", column, "'"));
      }
      continue;
    }
    if (++rows > kMostTraceJobs) {
      return absl::InvalidArgumentError(absl::StrCat(
          "more than ", kMostTraceJobs, " ", what, "; shorten the file"));
    }
    if (absl::Status status = take(Row(names, line, text)); !status.ok()) {
      return status;
    }
  }
  if (rows > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there are no ", what));
}

absl::StatusOr<HostNeed> HostOf(const Row& row) {
  const auto cores = row.Number("cpu_milli", kMostCores * 1000);
  if (!cores.ok()) return cores.status();
  const auto mib = row.Number("memory_mib", kMostMib);
  if (!mib.ok()) return mib.status();
  return HostNeed{*cores, *mib * kMiB};
}

absl::StatusOr<JobNeed> NeedIn(const Row& row) {
  const auto host = HostOf(row);
  if (!host.ok()) return host.status();
  const auto devices = row.Number("num_gpu", kMostPerNode);
  if (!devices.ok()) return devices.status();
  // A pod without a GPU takes a place on the host of a node.
  if (*devices == 0) {
    return JobNeed{.wanted_device = kHostKind, .bytes = 0, .host = *host};
  }
  const auto milli = row.Number("gpu_milli", kWholeDevice);
  if (!milli.ok()) return milli.status();
  const absl::string_view kind = row.Text("gpu_spec");
  if (kind.find('|') != absl::string_view::npos) {
    return row.Bad("gpu_spec",
                   "empty or one kind; several cannot be asked for");
  }
  if (*milli == 0) {
    return row.Bad("gpu_milli", "1 to 1000 for a pod with a GPU");
  }
  return JobNeed{.wanted_device = std::string(kind),
                 .devices = static_cast<uint32_t>(*devices),
                 // In these traces a pod on several GPUs has each of them
                 // whole.
                 .bytes = *devices > 1 ? kWholeDevice : *milli,
                 // The pod's cores and bytes are divided among its ranks,
                 // rounded up.
                 .host = {(host->milli_cores + *devices - 1) / *devices,
                          (host->bytes + *devices - 1) / *devices}};
}

}  // namespace

absl::StatusOr<std::vector<FillNode>> ParseNodes(absl::string_view csv) {
  std::vector<FillNode> nodes;
  uint64_t all = 0;
  const auto take = [&](const Row& row) -> absl::Status {
    const auto host = HostOf(row);
    if (!host.ok()) return host.status();
    const auto devices = row.Number("gpu", kMostPerNode);
    if (!devices.ok()) return devices.status();
    // The host of a node is one more device.
    all += *devices + 1;
    if (all > kMostTraceDevices) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the nodes have more than ", kMostTraceDevices,
          " devices, their hosts counted; no more can be simulated"));
    }
    const absl::string_view kind = row.Text("model");
    nodes.push_back({std::string(kind.empty() ? "gpu" : kind),
                     static_cast<uint32_t>(*devices), *host});
    return absl::OkStatus();
  };
  const absl::Status read =
      ForEachRow(csv, "nodes", {"cpu_milli", "memory_mib", "gpu"}, take);
  if (!read.ok()) return read;
  return nodes;
}

absl::StatusOr<std::vector<JobNeed>> ParsePods(absl::string_view csv) {
  std::vector<JobNeed> jobs;
  const auto take = [&](const Row& row) -> absl::Status {
    auto need = NeedIn(row);
    if (!need.ok()) return need.status();
    jobs.push_back(*std::move(need));
    return absl::OkStatus();
  };
  const absl::Status read = ForEachRow(
      csv, "pods", {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, take);
  if (!read.ok()) return read;
  return jobs;
}

std::vector<FillNode> GenerateNodes(uint32_t nodes) {
  const HostNeed host{96'000, uint64_t{768} << 30};
  return std::vector<FillNode>(nodes, FillNode{"gpu", 8, host});
}

std::vector<JobNeed> GenerateNeeds(uint32_t jobs, uint64_t seed) {
  constexpr std::array<uint64_t, 8> kParts = {100, 200, 250, 330,
                                              460, 500, 650, 810};
  constexpr std::array<uint64_t, 4> kCores = {2000, 4000, 6000, 12000};
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  Random random(seed);
  std::vector<JobNeed> needs;
  for (uint32_t i = 0; i < jobs; ++i) {
    const double u = random.Uniform();
    const uint64_t cores = kCores[random.Below(kCores.size())];
    JobNeed need{.wanted_device = "",
                 .devices = 1,
                 .bytes = kWholeDevice,
                 .host = {cores, cores / 1000 * 4 * kGiB}};
    if (u < 0.13) {
      need.wanted_device = kHostKind;
      need.bytes = 0;
    } else if (u < 0.55) {
      need.bytes = kParts[random.Below(kParts.size())];
    } else if (u >= 0.99) {
      need.devices = u < 0.993 ? 2 : u < 0.996 ? 4 : 8;
    }
    needs.push_back(std::move(need));
  }
  return needs;
}

}  // namespace gpupool::scheduler
