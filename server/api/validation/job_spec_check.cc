#include "server/api/validation/job_spec_check.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/base/elastic_devices.h"
#include "engine/base/job_limits.h"
#include "engine/base/row_windows.h"
#include "engine/base/sha256.h"
#include "engine/base/size_expression.h"
#include "engine/base/status_macros.h"
#include "engine/base/tensor_limits.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/device_check.h"
#include "server/api/validation/field_range.h"
#include "server/api/validation/training_spec_check.h"
#include "server/control/records/rows.h"

namespace gpupool::server {
namespace {

constexpr int32_t kMaxPriority = 1000;
constexpr size_t kMaxLocationBytes = 4096;
constexpr int kMaxDimensions = 1000;
constexpr int kMaxBoundNumbers = 1 << 20;
constexpr int64_t kMaxElements = engine::kMaxInputElements;
constexpr uint32_t kMaxAttempts = 100;
constexpr double kMaxBackoffSeconds = 3600;
constexpr uint32_t kMaxDevices = engine::kMaxJobDevices;
constexpr double kMaxRunSeconds = 1e9;
constexpr int64_t kMaxUnixSeconds = 253402300799;  // 9999-12-31T23:59:59Z
constexpr int kMaxPrerequisites = 100;
constexpr double kMaxHostCores = 65536;
constexpr uint64_t kMaxHostBytes = uint64_t{1} << 50;

// Checks the choice of held-out rows. Whether rows are left is known with the
// data only.
absl::Status CheckHeldOut(const v1::HeldOut& held_out) {
  switch (held_out.rule_case()) {
    case v1::HeldOut::kEvery:
      if (held_out.every() >= 2) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("data.held_out.every is ",
                                                     held_out.every(),
                                                     "; it must be 2 or more"));
    case v1::HeldOut::kLast:
      if (held_out.last() >= 1) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "data.held_out.last is 0; it must be 1 or more");
    case v1::HeldOut::kFraction:
      return CheckRange("data.held_out.fraction.fraction",
                        held_out.fraction().fraction(), kInside);
    case v1::HeldOut::kFold:
      if (held_out.fold().of() >= 2 &&
          held_out.fold().index() < held_out.fold().of()) {
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError(
          absl::StrCat("data.held_out.fold is part ", held_out.fold().index(),
                       " of ", held_out.fold().of(),
                       "; parts count from 0, and there must be at least 2"));
    case v1::HeldOut::RULE_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Checks numbers of devices: a fixed one or an elastic range, never both.
absl::Status CheckDevices(const v1::JobSpec& spec) {
  if (spec.devices() > kMaxDevices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "devices is ", spec.devices(), "; it must be 1 .. ", kMaxDevices));
  }
  if (spec.max_devices() == 0) {
    if (spec.min_devices() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("min_devices is ", spec.min_devices(),
                     " without max_devices; set max_devices to the maximum"));
  }
  if (spec.devices() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices is ", spec.devices(), " and max_devices is ",
                     spec.max_devices(),
                     "; a job has either a number of devices or bounds"));
  }
  if (spec.max_devices() > kMaxDevices ||
      spec.min_devices() > spec.max_devices()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "min_devices is ", spec.min_devices(), " and max_devices is ",
        spec.max_devices(), "; they must be 1 .. ", kMaxDevices,
        ", the first not "
        "above the second"));
  }
  if (!engine::ElasticDevices(spec.min_devices(), spec.max_devices(),
                              spec.training().batch_size())
           .empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no number of devices from min_devices ", spec.min_devices(),
      " to max_devices ", spec.max_devices(), " divides training.batch_size ",
      spec.training().batch_size(), "; set batch_size to a multiple of one"));
}

// A profile has the steps of one device.
absl::Status CheckProfiledDevices(const v1::JobSpec& spec) {
  const uint32_t devices = std::max(spec.devices(), spec.max_devices());
  if (!spec.training().has_profile() || devices <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("training.profile is set and the job may run on ", devices,
                   " devices; only jobs on one device can be profiled: leave "
                   "training.profile out or set devices: 1"));
}

absl::Status CheckSeconds(absl::string_view field, double seconds) {
  if (seconds >= 0 && seconds <= kMaxRunSeconds) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", seconds, "; it must be 0 (none) .. ",
                   absl::StrFormat("%.0f", kMaxRunSeconds)));
}

// Checks the time. One that is not set is 1970, which passes.
absl::Status CheckTime(absl::string_view field,
                       const google::protobuf::Timestamp& time) {
  if (time.seconds() >= 0 && time.seconds() <= kMaxUnixSeconds &&
      time.nanos() >= 0 && time.nanos() < 1'000'000'000) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field,
      " is not a time from 1970 to 9999, as in \"2026-01-31T18:00:00Z\""));
}

// Checks the number of prerequisites. Control checks that they exist.
absl::Status CheckAfter(const v1::JobSpec& spec) {
  if (spec.after_ok_size() + spec.after_any_size() > kMaxPrerequisites) {
    return absl::InvalidArgumentError(
        absl::StrCat("after_ok and after_any name ",
                     spec.after_ok_size() + spec.after_any_size(),
                     " jobs; at most ", kMaxPrerequisites, " are allowed"));
  }
  for (const uint64_t id : spec.after_ok()) {
    RETURN_IF_ERROR(CheckId("after_ok", id));
  }
  for (const uint64_t id : spec.after_any()) {
    RETURN_IF_ERROR(CheckId("after_any", id));
  }
  return absl::OkStatus();
}

absl::Status CheckHost(const v1::JobSpec& spec) {
  const double cores = spec.host_cores();
  // Negates the whole range, so that NaN is refused, too.
  if (!(cores >= 0 && cores <= kMaxHostCores)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host_cores is ", cores, "; it must be 0 .. ", kMaxHostCores));
  }
  if (spec.host_bytes() > kMaxHostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("host_bytes is ", spec.host_bytes(), "; at most ",
                     kMaxHostBytes, " are allowed"));
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const v1::JobSpec& spec) {
  RETURN_IF_ERROR(CheckSeconds("max_run_seconds", spec.max_run_seconds()));
  RETURN_IF_ERROR(
      CheckSeconds("expected_run_seconds", spec.expected_run_seconds()));
  RETURN_IF_ERROR(CheckTime("start_before", spec.start_before()));
  return CheckTime("deadline", spec.deadline());
}

absl::Status CheckLoader(const v1::DataLoader& loader) {
  for (const auto& [field, number, limit] :
       {std::tuple("workers", loader.workers(), engine::kMaxLoaderWorkers),
        std::tuple("prefetch", loader.prefetch(),
                   engine::kMaxPrefetchedBatches)}) {
    if (number <= limit) continue;
    return absl::InvalidArgumentError(absl::StrCat("data.loader.", field,
                                                   " is ", number, "; at most ",
                                                   limit, " are allowed"));
  }
  return absl::OkStatus();
}

absl::Status CheckData(const v1::DataSpec& data) {
  RETURN_IF_ERROR(CheckLoader(data.loader()));
  if (data.has_window()) {
    RETURN_IF_ERROR(engine::CheckWindowRows(data.window()));
  }
  if (!data.has_synthetic()) {
    RETURN_IF_ERROR(CheckName("data.dataset", data.dataset()));
  } else if (!data.dataset().empty()) {
    return absl::InvalidArgumentError(
        "data.dataset and data.synthetic are both set; train on one of them");
  }
  RETURN_IF_ERROR(CheckHeldOut(data.held_out()));
  if (!data.validation().empty()) {
    RETURN_IF_ERROR(CheckName("data.validation", data.validation()));
    if (data.held_out().rule_case() != v1::HeldOut::RULE_NOT_SET) {
      return absl::InvalidArgumentError(
          "data.held_out and data.validation are both set; evaluate either "
          "rows of the dataset or another dataset");
    }
  }
  if (data.transforms_size() > engine::kMaxTransforms) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.transforms has ", data.transforms_size(), " transforms; at most ",
        engine::kMaxTransforms, " are allowed"));
  }
  const v1::Scaling& scaling = data.scaling();
  if (scaling.rule_case() != v1::Scaling::kMultiply) return absl::OkStatus();
  if (std::isfinite(scaling.multiply()) && scaling.multiply() != 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data.scaling.multiply is ", scaling.multiply(),
                   "; it must be a finite number other than 0"));
}

// Checks and fills in how often and when a failed job is tried again.
absl::Status CheckRetry(v1::RetrySpec* retry) {
  FillRetryDefaults(retry);
  if (retry->max_attempts() < 1 || retry->max_attempts() > kMaxAttempts) {
    return absl::InvalidArgumentError(
        absl::StrCat("retry.max_attempts is ", retry->max_attempts(),
                     "; it must be 1 .. ", kMaxAttempts));
  }
  if (retry->backoff_seconds() > 0 &&
      retry->backoff_seconds() <= kMaxBackoffSeconds) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("retry.backoff_seconds is ", retry->backoff_seconds(),
                   "; it must be above 0 and at most ", kMaxBackoffSeconds));
}

absl::Status CheckPublish(v1::PublishSpec* publish) {
  if (!publish->model().empty()) {
    RETURN_IF_ERROR(CheckName("publish.model", publish->model()));
  }
  return CheckServingOptions("publish.serving", publish->mutable_serving());
}

// Checks each dimension and, without overflow, their product.
absl::Status CheckInputShape(absl::string_view field,
                             const v1::ModelSpec& spec) {
  if (spec.input_shape_size() < 1 ||
      spec.input_shape_size() > engine::kMaxExampleRank) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".input_shape has ", spec.input_shape_size(),
        " dimensions; it must have 1 .. ", engine::kMaxExampleRank));
  }
  int64_t elements = 1;
  for (const int64_t size : spec.input_shape()) {
    if (size < 1 || size > kMaxElements / elements) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".input_shape holds ", size,
          "; each size must be 1 or more and their product at most 2^31"));
    }
    elements *= size;
  }
  return absl::OkStatus();
}

bool IsLayerNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.';
}

// Checks a layer's name. "input" stands for the model's input.
absl::Status CheckLayerName(const std::string& field, const std::string& name) {
  if (name.size() <= engine::kMaxLayerNameBytes && name != "input" &&
      std::all_of(name.begin(), name.end(), IsLayerNameByte)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ".name is ", Quoted(name),
                   "; a layer's name has at most ", engine::kMaxLayerNameBytes,
                   " letters, digits, '_' or '.' and is not \"input\""));
}

absl::Status CheckModelFile(absl::string_view field, const std::string& sha256,
                            uint64_t bytes) {
  if (!engine::IsSha256Hex(sha256)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".sha256 is ", Quoted(sha256),
                     "; it must be 64 lower-case hex digits"));
  }
  if (bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ".bytes is 0"));
}

// Returns whether the path is relative, without "..", "." or empty parts.
bool IsPlainLocation(absl::string_view location) {
  if (location.empty() || location.size() > kMaxLocationBytes ||
      absl::StrContains(location, '\0') || absl::StrContains(location, '\\')) {
    return false;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(location, '/');
  return std::none_of(parts.begin(), parts.end(), [](absl::string_view part) {
    return part.empty() || part == "." || part == "..";
  });
}

// Checks form and counts. Import checks the rest, since it knows the inputs.
absl::Status CheckServedSizes(const std::string& field,
                              const v1::OnnxModel& onnx) {
  if (onnx.served_dimensions_size() + onnx.padding_size() +
          onnx.bound_inputs_size() + onnx.derived_dimensions_size() >
      kMaxDimensions) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has more than ", kMaxDimensions,
        " served_dimensions, derived_dimensions, padding and bound_inputs"));
  }
  for (const auto& [name, text] : onnx.derived_dimensions()) {
    if (text.size() <= engine::kMaxSizeExpressionBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".derived_dimensions: ", Quoted(name), " has ", text.size(),
        " bytes, the limit is ", engine::kMaxSizeExpressionBytes));
  }
  for (const auto& [name, sizes] : onnx.served_dimensions()) {
    if (sizes.sizes_size() <= kMaxDimensions) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".served_dimensions: ", Quoted(name), " lists ",
        sizes.sizes_size(), " sizes, the limit is ", kMaxDimensions));
  }
  for (const auto& [name, numbers] : onnx.bound_inputs()) {
    if (numbers.numbers_size() <= kMaxBoundNumbers) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".bound_inputs: ", Quoted(name), " has ", numbers.numbers_size(),
        " numbers, the limit is ", kMaxBoundNumbers));
  }
  return absl::OkStatus();
}

absl::Status CheckOnnx(const std::string& field, const v1::OnnxModel& onnx) {
  if (!onnx.file().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".file is for job files; upload the file and give its sha256"));
  }
  RETURN_IF_ERROR(CheckModelFile(field, onnx.sha256(), onnx.bytes()));
  if (onnx.external_files_size() > engine::kMaxExternalFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".external_files has ", onnx.external_files_size(),
                     " entries, the limit is ", engine::kMaxExternalFiles));
  }
  absl::flat_hash_set<std::string> locations;
  for (const v1::ExternalFile& file : onnx.external_files()) {
    RETURN_IF_ERROR(CheckModelFile(absl::StrCat(field, ".external_files"),
                                   file.sha256(), file.bytes()));
    if (!IsPlainLocation(file.location())) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".external_files.location is ", Quoted(file.location()),
          "; it must be inside the model's folder"));
    }
    if (locations.insert(file.location()).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".external_files names ", Quoted(file.location()), " twice"));
  }
  if (onnx.dimensions_size() + onnx.unbatched_inputs_size() > kMaxDimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has more than ", kMaxDimensions,
                     " dimensions and unbatched_inputs"));
  }
  for (const auto& [name, size] : onnx.dimensions()) {
    if (size >= 0 && size <= kMaxElements) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".dimensions: ", Quoted(name), " is ", size,
                     "; it must be 0 .. ", kMaxElements));
  }
  return CheckServedSizes(field, onnx);
}

absl::Status CheckWeightsFile(const std::string& field,
                              const v1::WeightsFile& weights) {
  if (weights.file().empty()) {
    return CheckModelFile(field, weights.sha256(), weights.bytes());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".file is for job files; upload the file and give its sha256"));
}

absl::Status CheckLayers(absl::string_view field, const v1::ModelSpec& spec) {
  if (spec.layers_size() < 1 || spec.layers_size() > engine::kMaxLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".layers has ", spec.layers_size(),
                     " layers; a model has 1 .. ", engine::kMaxLayers));
  }
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < spec.layers_size(); ++i) {
    const v1::Layer& layer = spec.layers(i);
    const std::string where = absl::StrCat(field, ".layers[", i, "]");
    if (layer.kind_case() == v1::Layer::KIND_NOT_SET) {
      return absl::InvalidArgumentError(absl::StrCat(
          where,
          " has no kind that this server knows; see the list of layers "
          "in model.proto"));
    }
    RETURN_IF_ERROR(CheckLayerName(where, layer.name()));
    if (layer.name().empty() || names.insert(layer.name()).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".name is ", Quoted(layer.name()),
                     ", which an earlier layer has already"));
  }
  return absl::OkStatus();
}

// Checks the form of a model that goes by a name. The worker checks its
// options.
absl::Status CheckNamed(absl::string_view field, const v1::ModelSpec& spec) {
  if (spec.has_onnx() || spec.layers_size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has both named and ", spec.has_onnx() ? "onnx" : "layers",
        "; a model is one of them"));
  }
  if (spec.named().kind_case() == v1::NamedModel::KIND_NOT_SET) {
    return absl::InvalidArgumentError(absl::StrCat(
        field,
        ".named has no name that this server knows; see NamedModel in "
        "model.proto"));
  }
  if (spec.input_shape().empty()) return absl::OkStatus();
  return CheckInputShape(field, spec);
}

}  // namespace

absl::Status CheckModelSpec(absl::string_view field,
                            const v1::ModelSpec& spec) {
  if (spec.has_weights()) {
    RETURN_IF_ERROR(
        CheckWeightsFile(absl::StrCat(field, ".weights"), spec.weights()));
  }
  if (spec.has_named()) return CheckNamed(field, spec);
  if (spec.has_onnx()) {
    if (spec.layers_size() == 0 && spec.input_shape_size() == 0) {
      return CheckOnnx(absl::StrCat(field, ".onnx"), spec.onnx());
    }
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has both onnx and layers; a model is one of them"));
  }
  RETURN_IF_ERROR(CheckInputShape(field, spec));
  return CheckLayers(field, spec);
}

// Checks that no field has "${index}", which stays only in specs that are no
// tasks of arrays, and in fields of the whole array.
absl::Status CheckIndex(const v1::JobSpec& spec) {
  if (!absl::StrContains(spec.SerializeAsString(), "${index}")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "the job has \"${index}\", which stands for a task's index in an array, "
      "and not in its tenant or queue; write a number instead, or add "
      "`array: {indices: 0-9}`");
}

absl::Status CheckJobSpec(v1::JobSpec* spec) {
  RETURN_IF_ERROR(CheckIndex(*spec));
  RETURN_IF_ERROR(CheckName("name", spec->name()));
  if (spec->tenant().empty()) spec->set_tenant("default");
  RETURN_IF_ERROR(CheckTenant(spec->tenant()));
  // Stored as empty, its only form before there were other queues, so that a
  // request that is repeated after an upgrade is still equal.
  if (spec->queue() == "default") spec->clear_queue();
  if (!spec->queue().empty()) {
    RETURN_IF_ERROR(CheckName("queue", spec->queue()));
  }
  if (std::abs(int64_t{spec->priority()}) > kMaxPriority) {
    return absl::InvalidArgumentError(
        absl::StrCat("priority is ", spec->priority(), "; it must be -",
                     kMaxPriority, " .. ", kMaxPriority));
  }
  RETURN_IF_ERROR(CheckDevice("device", spec->device()));
  RETURN_IF_ERROR(CheckDevices(*spec));
  RETURN_IF_ERROR(CheckProfiledDevices(*spec));
  RETURN_IF_ERROR(CheckDeviceCount(
      spec->device(), std::max(spec->devices(), spec->max_devices())));
  RETURN_IF_ERROR(CheckHost(*spec));
  RETURN_IF_ERROR(CheckTimes(*spec));
  RETURN_IF_ERROR(CheckAfter(*spec));
  if (spec->devices() == 1) spec->clear_devices();  // both mean the same
  RETURN_IF_ERROR(CheckModelSpec("model", spec->model()));
  RETURN_IF_ERROR(CheckData(spec->data()));
  RETURN_IF_ERROR(CheckTrainingSpec(spec->training()));
  RETURN_IF_ERROR(CheckPublish(spec->mutable_publish()));
  return CheckRetry(spec->mutable_retry());
}

absl::StatusOr<std::vector<ArrayTask>> CheckArraySpec(v1::JobSpec* spec) {
  if (!spec->has_array()) {
    return absl::InvalidArgumentError(
        "the spec has no array; set array.indices, or call SubmitJob");
  }
  if (spec->tenant().empty()) spec->set_tenant("default");
  ASSIGN_OR_RETURN(std::vector<ArrayTask> tasks, TasksOf(*spec));
  for (ArrayTask& task : tasks) {
    const absl::Status checked = CheckJobSpec(&task.spec);
    if (checked.ok()) continue;
    return absl::Status(checked.code(), absl::StrCat("task ", task.index, ": ",
                                                     checked.message()));
  }
  return tasks;
}

}  // namespace gpupool::server
