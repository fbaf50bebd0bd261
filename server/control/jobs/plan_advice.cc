#include "server/control/jobs/plan_advice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gpupool/v1/limits.pb.h"
#include "scheduler/state/device_choice.h"
#include "scheduler/state/types.h"
#include "server/control/jobs/step_times.h"

namespace gpupool::server {
namespace {

using scheduler::FormatBytes;

constexpr uint64_t kHalfMultiple = 8;  // 16 bytes of 16-bit numbers
constexpr uint64_t kTf32Multiple = 4;  // 16 bytes of float32
constexpr double kLeastShare = 0.05;
constexpr size_t kMostOddSentences = 3;
constexpr uint64_t kMostBatch = v1::MAX_TRAINING_ROWS;
constexpr double kMostBytes = 1e19;  // below the largest of 64 bits
// The largest expected_run_seconds that a job may have.
constexpr double kMostRunSeconds = 1e9;

// Returns "950", "31.2k", "261M", "1.2T".
std::string CountText(double count) {
  const char* unit = "";
  for (const char* larger : {"k", "M", "G", "T", "P"}) {
    if (count < 999.5) break;
    count /= 1000;
    unit = larger;
  }
  return absl::StrFormat("%.3g%s", count, unit);
}

// Returns "40 us", "2.6 ms", "3 s", "12.5 min", "7 h".
std::string SecondsText(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.3g us", 1e6 * seconds);
  if (seconds < 1) return absl::StrFormat("%.3g ms", 1e3 * seconds);
  if (seconds < 120) return absl::StrFormat("%.3g s", seconds);
  if (seconds < 7200) return absl::StrFormat("%.3g min", seconds / 60);
  return absl::StrFormat("%.3g h", seconds / 3600);
}

uint64_t Quantum(const v1::JobSpec& spec) {
  return std::max(spec.devices(), 1u);
}

uint64_t Accumulated(const v1::JobSpec& spec) {
  return std::max(spec.training().accumulate_batches(), 1u);
}

// Returns the largest multiple of 8 and of the devices up to `batch`, and
// `batch` itself if none is above the job's own batch.
uint64_t RoundBatch(uint64_t batch, const v1::JobSpec& spec) {
  const uint64_t multiple = std::lcm(uint64_t{8}, Quantum(spec));
  const uint64_t rounded = batch - batch % multiple;
  return rounded <= spec.training().batch_size() ? batch : rounded;
}

const v1::Device* FindDevice(const PlannedJob& job, const std::string& name) {
  for (const v1::Device& device : job.devices) {
    if (device.name() == name) return &device;
  }
  return nullptr;
}

bool MayRunOnGpus(const PlannedJob& job) {
  return std::any_of(job.devices.begin(), job.devices.end(),
                     [](const v1::Device& device) {
                       return device.kind() != scheduler::kCpuKind;
                     });
}

template <typename Names>
std::string NamesText(const Names& names) {
  return absl::StrJoin(names, ", ");
}

// Returns the largest batch that fits as one of several that are accumulated;
// 0: none is known. Accumulating keeps sums as large as the weights, which the
// plan of a single batch does not have. Their bytes count in rows, by a line
// through the two plans.
uint64_t LargestPart(const v1::LargestBatch& found, const PlannedJob& job) {
  const v1::PlannedBytes& planned = job.response.plan().training();
  const uint64_t batch = job.spec.training().batch_size();
  const uint64_t largest = found.batch_size();
  if (Accumulated(job.spec) > 1 || planned.weights() == 0) return largest;
  if (batch <= largest || planned.peak() <= found.peak_bytes()) return 0;
  const double row_bytes =
      static_cast<double>(planned.peak() - found.peak_bytes()) /
      static_cast<double>(batch - largest);
  const double reserved =
      std::ceil(static_cast<double>(planned.weights()) / row_bytes);
  if (reserved >= static_cast<double>(largest)) return 0;
  const uint64_t rows = largest - static_cast<uint64_t>(reserved);
  return rows - rows % Quantum(job.spec);
}

// Returns how to write a batch that does not fit as several that do: equal
// parts if there are some, else parts of about the same sum.
std::string SplitText(const v1::LargestBatch& found, const PlannedJob& job) {
  const uint64_t batch = job.spec.training().batch_size();
  const uint64_t quantum = Quantum(job.spec);
  const uint64_t accumulated = Accumulated(job.spec);
  const uint64_t largest = LargestPart(found, job);
  if (largest == 0) {
    return absl::StrCat("write batch_size: ", found.batch_size());
  }
  uint64_t parts = (batch + largest - 1) / largest;
  const uint64_t most = std::min(2 * parts, batch / quantum);
  for (uint64_t even = parts; even <= most; ++even) {
    if (batch % (even * quantum) != 0) continue;
    return absl::StrCat("write batch_size: ", batch / even,
                        " and accumulate_batches: ", even * accumulated,
                        " for the same rows a step");
  }
  const uint64_t part = batch / parts / quantum * quantum;
  if (part == 0) return absl::StrCat("write batch_size: ", found.batch_size());
  return absl::StrCat("write batch_size: ", part,
                      " and accumulate_batches: ", parts * accumulated,
                      " for about the same rows a step");
}

// Returns the sentence for a device on which every batch that the job may have
// fits; "" if larger ones than the one that was found are possible.
std::string AllFitText(const v1::LargestBatch& found, const PlannedJob& job) {
  const uint64_t next = found.batch_size() + Quantum(job.spec);
  const uint64_t accumulated = Accumulated(job.spec);
  std::string most;
  if (job.rows > 0 && next > job.rows / accumulated) {
    most = absl::StrCat(found.batch_size(), accumulated > 1
                                                ? ", all rows in one step,"
                                                : ", all rows,");
  } else if (next > kMostBatch) {
    most = absl::StrCat("the limit of ", kMostBatch);
  } else {
    return "";
  }
  return absl::StrCat("every batch_size up to ", most, " fits on ",
                      NamesText(found.devices()), " (",
                      FormatBytes(found.peak_bytes()), " of ",
                      FormatBytes(found.limit_bytes()), ")");
}

// Returns the sentence for a device on which the job's batch fits and no batch
// is known not to fit. Larger ones were not planned, or the planner refused
// them for another reason than memory.
std::string NoneTooLargeText(const v1::LargestBatch& found,
                             const PlannedJob& job) {
  std::string all_fit = AllFitText(found, job);
  if (!all_fit.empty()) return all_fit;
  const uint64_t batch = job.spec.training().batch_size();
  const std::string where = NamesText(found.devices());
  const std::string limit = FormatBytes(found.limit_bytes());
  const std::string now = FormatBytes(job.response.plan().training().peak());
  if (found.batch_size() <= batch) {
    return absl::StrCat("batch_size ", batch, " fits on ", where, ", with ",
                        now, " of ", limit, "; no larger one is known to fit");
  }
  const uint64_t larger = RoundBatch(found.batch_size(), job.spec);
  return absl::StrCat("batch_size can grow to at least ", larger, " on ", where,
                      larger == found.batch_size() ? " (" : " (about ",
                      FormatBytes(found.peak_bytes()), " of ", limit, "; ",
                      batch, " takes ", now, "): write batch_size: ", larger,
                      ", and check the learning rate");
}

std::string BatchText(const v1::LargestBatch& found, const PlannedJob& job) {
  const uint64_t batch = job.spec.training().batch_size();
  const uint64_t now = job.response.plan().training().peak();
  const std::string where = NamesText(found.devices());
  const std::string limit = FormatBytes(found.limit_bytes());
  if (found.batch_size() == 0) {
    // Nobody planned the smallest batch if the search ended early.
    if (found.too_large() == 0 || found.too_large() > Quantum(job.spec)) {
      return "";
    }
    return absl::StrCat(
        "not even batch_size ", found.too_large(), " fits on ", where,
        ", which has ", limit,
        "; write recompute or a 16-bit precision, or take a larger device");
  }
  // Not proven: the search ended early, or the next batch was refused.
  const bool exact =
      found.too_large() == found.batch_size() + Quantum(job.spec);
  const char* at_least = exact ? "" : "at least ";
  if (now > found.limit_bytes()) {
    return absl::StrCat("batch_size ", batch, " takes ", FormatBytes(now),
                        " and does not fit on ", where, ", which has ", limit,
                        "; the largest that does is ", at_least,
                        found.batch_size(), "; ", SplitText(found, job));
  }
  if (found.too_large() == 0) return NoneTooLargeText(found, job);
  if (found.batch_size() <= batch) {
    return absl::StrCat("batch_size ", batch, " is the largest ",
                        exact ? "" : "known ", "that fits on ", where,
                        ", with ", FormatBytes(now), " of ", limit);
  }
  return absl::StrCat("the largest batch_size on ", where, " is ", at_least,
                      found.batch_size(), " (", FormatBytes(found.peak_bytes()),
                      " of ", limit, "; ", batch, " takes ", FormatBytes(now),
                      "); for the most that fits write batch_size: ",
                      RoundBatch(found.batch_size(), job.spec),
                      ", and check the learning rate");
}

// Returns the largest batch that is known to fit on the device; 0: unknown.
uint64_t LargestOn(const PlannedJob& job, const std::string& device) {
  for (const v1::LargestBatch& found : job.response.largest_batches()) {
    const auto& devices = found.devices();
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
      return found.batch_size();
    }
  }
  return 0;
}

// Returns the sum of two counts that may be the largest of 64 bits.
double StepFlops(const v1::StepWork& work) {
  return static_cast<double>(work.product_flops()) +
         static_cast<double>(work.other_flops());
}

std::string SmallJobText(const v1::StepTime& time, const PlannedJob& job) {
  const v1::StepWork& work = job.response.plan().step_work();
  std::string text = absl::StrCat(
      "the job is too small for ", NamesText(time.devices()), ": the ",
      CountText(StepFlops(work)), " FLOPs of a step take ",
      SecondsText(time.compute_seconds()),
      time.at_measured_rates() ? " at measured rates" : " at peak rates",
      ", and starting its ", work.kernels(), " kernels takes ",
      SecondsText(time.launch_seconds()), " (", SecondsText(kLaunchSeconds),
      " each)");
  const double factor = time.launch_seconds() / time.compute_seconds();
  const double wanted = std::ceil(factor * job.spec.training().batch_size());
  const double largest = static_cast<double>(LargestOn(job, time.devices(0)));
  if (wanted <= largest) {
    // The next multiple of 8 and of the devices, if that fits, too.
    const double multiple =
        static_cast<double>(std::lcm(uint64_t{8}, Quantum(job.spec)));
    const double even = std::ceil(wanted / multiple) * multiple;
    absl::StrAppend(&text, "; write batch_size: ",
                    static_cast<uint64_t>(even <= largest ? even : largest),
                    " or more");
    return text;
  }
  if (job.pool_has_cpus) {
    return absl::StrCat(text, "; write device: cpu to leave the GPU to others");
  }
  return absl::StrCat(text, "; a GPU that others use as well is enough");
}

bool ClassesMayBePadded(const v1::TrainingSpec& training) {
  return training.has_cross_entropy() || training.has_negative_log_likelihood();
}

// Returns whether the model has an output of this size.
bool IsOutput(const v1::Plan& plan, uint64_t size) {
  return std::any_of(plan.outputs().begin(), plan.outputs().end(),
                     [size](const v1::TensorSpec& output) {
                       return output.shape_size() > 0 &&
                              output.shape(output.shape_size() - 1) ==
                                  static_cast<int64_t>(size);
                     });
}

// Returns whether a layer's weight is the table of an embedding.
bool IsTied(const std::string& name, const v1::ModelSpec& model) {
  for (int i = 0; i < model.layers_size(); ++i) {
    const v1::Layer& layer = model.layers(i);
    if (layer.dense().tied_to().empty()) continue;
    if (layer.name() == name) return true;
    if (layer.name().empty() && name == absl::StrCat("dense_", i)) return true;
  }
  return false;
}

// Returns the field of the job file that has the number of the layer's outputs.
const char* FieldOf(const v1::OddProduct& odd, const v1::ModelSpec& model) {
  if (model.named().has_gpt_tiny()) return "vocabulary";
  if (model.has_named()) return "classes";
  if (odd.convolution()) return "filters";
  return IsTied(odd.layer(), model) ? "entries" : "units";
}

// Returns "" if the size follows from the task or from a named model.
std::string OddSizeText(const v1::OddProduct& odd, uint64_t multiple,
                        const PlannedJob& job) {
  const uint64_t size = odd.outputs();
  const uint64_t padded = (size + multiple - 1) / multiple * multiple;
  const bool is_output = IsOutput(job.response.plan(), size);
  if (is_output && !ClassesMayBePadded(job.spec.training())) return "";
  if (job.spec.model().has_named() && !is_output) return "";
  std::string text = absl::StrFormat(
      "layer %s has %u %s, no multiple of %u as tensor cores want it, and "
      "%.0f%% "
      "of the FLOPs of products; ",
      odd.layer(), size, odd.convolution() ? "filters" : "outputs", multiple,
      100 * odd.share());
  if (is_output) {
    absl::StrAppend(&text, "pad the classes (or the vocabulary) from ", size,
                    " to ", padded, ": ");
  }
  if (job.spec.model().has_onnx()) {
    return absl::StrCat(text, "export the model with ", padded);
  }
  return absl::StrCat(text, "write ", FieldOf(odd, job.spec.model()), ": ",
                      padded);
}

// Returns 0 for precisions whose products need no tensor cores.
uint64_t MultipleFor(v1::Precision precision) {
  switch (precision) {
    case v1::BF16:
    case v1::FP16:
      return kHalfMultiple;
    case v1::HIGH:
      return kTf32Multiple;
    default:
      return 0;
  }
}

// Returns what the estimate is made of.
std::string SourceText(const v1::StepTime& time, const PlannedJob& job) {
  const v1::StepWork& work = job.response.plan().step_work();
  const v1::Device* device = FindDevice(job, time.devices(0));
  const double bytes = static_cast<double>(work.product_bytes()) +
                       static_cast<double>(work.other_bytes());
  const v1::PeakRates rates =
      device != nullptr ? RatesForPlans(*device) : v1::PeakRates();
  const bool has_bytes = rates.bytes() > 0;
  std::string text = absl::StrCat(CountText(StepFlops(work)), " FLOPs");
  if (has_bytes) {
    absl::StrAppend(
        &text, " and ",
        FormatBytes(static_cast<uint64_t>(std::min(bytes, kMostBytes))));
  }
  absl::StrAppend(&text, time.at_measured_rates()
                             ? " at the rates that `gpupool devices bench` "
                               "measured"
                             : " at peak rates, which programs seldom reach");
  if (device != nullptr) {
    absl::StrAppend(&text, " (", CountText(rates.float32_flops()),
                    " float32 FLOPs");
    if (has_bytes) {
      absl::StrAppend(&text, ", ", CountText(rates.bytes()), " bytes");
    }
    absl::StrAppend(&text, " a second)");
  }
  if (time.launch_seconds() > 0) {
    absl::StrAppend(&text, ", and ", work.kernels(), " kernels of at least ",
                    SecondsText(kLaunchSeconds));
  }
  return text;
}

std::string TimeText(const v1::StepTime& time, const PlannedJob& job) {
  const uint64_t steps = job.response.total_steps();
  const double all = time.seconds() * static_cast<double>(steps);
  const bool measured = time.measured_job_id() != 0;
  const std::string seconds = SecondsText(time.seconds());
  const std::string where = NamesText(time.devices());
  std::string text =
      measured
          ? absl::StrCat("a step took ", seconds, " on ", where, " in job ",
                         time.measured_job_id(), ", which had the same plan")
          : absl::StrCat("a step is estimated at about ", seconds, " on ",
                         where, ", from ", SourceText(time, job));
  if (steps == 0 || !(all <= kMostRunSeconds)) return text;
  absl::StrAppend(&text, "; all ", steps, " steps take ",
                  measured ? "" : "about ", SecondsText(all));
  if (measured && job.spec.expected_run_seconds() == 0) {
    absl::StrAppend(&text, ": write expected_run_seconds: ",
                    static_cast<uint64_t>(std::ceil(all)),
                    " so that others know when the device is free");
  }
  return text;
}

}  // namespace

std::vector<std::string> PlanAdvice(const PlannedJob& job) {
  std::vector<std::string> all;
  for (const auto& advice :
       {BatchAdvice, SmallJobAdvice, OddSizeAdvice, TimeAdvice}) {
    for (std::string& text : advice(job)) all.push_back(std::move(text));
  }
  return all;
}

std::vector<std::string> BatchAdvice(const PlannedJob& job) {
  std::vector<std::string> texts;
  for (const v1::LargestBatch& found : job.response.largest_batches()) {
    std::string text = BatchText(found, job);
    if (!text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> SmallJobAdvice(const PlannedJob& job) {
  std::vector<std::string> texts;
  for (const v1::StepTime& time : job.response.step_times()) {
    if (time.compute_seconds() <= 0 ||
        time.compute_seconds() >= time.launch_seconds()) {
      continue;
    }
    texts.push_back(SmallJobText(time, job));
  }
  return texts;
}

std::vector<std::string> OddSizeAdvice(const PlannedJob& job) {
  std::vector<std::string> texts;
  const uint64_t multiple = MultipleFor(job.spec.training().precision());
  if (multiple == 0 || !MayRunOnGpus(job)) return texts;
  for (const v1::OddProduct& odd :
       job.response.plan().step_work().odd_products()) {
    if (odd.outputs() % multiple == 0 || odd.share() < kLeastShare) continue;
    std::string text = OddSizeText(odd, multiple, job);
    if (text.empty()) continue;
    texts.push_back(std::move(text));
    if (texts.size() == kMostOddSentences) break;
  }
  return texts;
}

std::vector<std::string> TimeAdvice(const PlannedJob& job) {
  std::vector<std::string> texts;
  for (const v1::StepTime& time : job.response.step_times()) {
    texts.push_back(TimeText(time, job));
  }
  return texts;
}

}  // namespace gpupool::server
