#include "client/cli/models/plan_view.h"

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

void PrintBytes(const Context& context, const v1::Plan& plan) {
  const bool trains = plan.has_training();
  std::vector<Table::Column> columns = {{"BYTES"}};
  if (trains) columns.push_back({"TRAINING", Table::kRight});
  columns.push_back({"INFERENCE", Table::kRight});
  Table table(std::move(columns));
  const v1::PlannedBytes& training = plan.training();
  const v1::PlannedBytes& inference = plan.inference();
  const auto add = [&](const char* name, uint64_t train, uint64_t infer) {
    std::vector<std::string> row = {name};
    if (trains) row.push_back(FormatBytes(train));
    row.push_back(FormatBytes(infer));
    table.AddRow(std::move(row));
  };
  add("weights", training.weights(), inference.weights());
  if (trains) {
    add("optimizer", training.optimizer(), inference.optimizer());
    add("gradients", training.gradients(), inference.gradients());
  }
  add("activations", training.activations(), inference.activations());
  add("workspace", training.workspace(), inference.workspace());
  if (training.next_batch() > 0) add("next batch", training.next_batch(), 0);
  add("peak", training.peak(), inference.peak());
  table.Print(context.out(), context.headers());
  if (plan.host_data_bytes() > 0) {
    *context.out().stream << "host memory for the dataset: "
                          << FormatBytes(plan.host_data_bytes()) << "\n";
  }
}

void PrintLayers(const Context& context, const v1::Plan& plan) {
  Table table({{"LAYER"},
               {"KIND"},
               {"OUTPUT"},
               {"PARAMETERS", Table::kRight},
               {"FLOPS", Table::kRight}});
  for (const v1::LayerPlan& layer : plan.layers()) {
    table.AddRow({layer.name(), layer.kind(),
                  absl::StrJoin(layer.output_shape(), "x"),
                  GroupDigits(layer.parameters()),
                  FormatCount(static_cast<double>(layer.flops()))});
  }
  table.Print(context.out(), context.headers());
}

// Returns the reason why no job can start on the device. Empty: none.
std::string ClosedText(const v1::Device& device) {
  switch (device.state()) {
    case v1::DEVICE_STARTING:
    case v1::DEVICE_LOST:
      return "when its worker is back";
    case v1::DEVICE_QUARANTINED:
      return "not in quarantine";
    default:
      break;
  }
  if (device.has_drain()) return "when the device is resumed";
  return device.has_cools_until() ? "when the device has cooled down" : "";
}

bool IsReserved(const v1::Device& device) {
  return std::any_of(
      device.reservations().begin(), device.reservations().end(),
      [](const auto& reservation) { return reservation.active(); });
}

const v1::Device* FindDevice(const v1::ListDevicesResponse& pool,
                             const std::string& name) {
  for (const v1::Device& device : pool.devices()) {
    if (device.name() == name) return &device;
  }
  return nullptr;
}

void PrintFits(const Context& context,
               const google::protobuf::RepeatedPtrField<v1::DeviceFit>& fits,
               const v1::ListDevicesResponse& pool) {
  Table table({{"DEVICE"},
               {"LIMIT", Table::kRight},
               {"FREE", Table::kRight},
               {"FITS"}});
  for (const v1::DeviceFit& fit : fits) {
    table.AddRow({fit.device(), FormatBytes(fit.limit_bytes()),
                  FormatBytes(fit.free_bytes()),
                  FitText(fit, FindDevice(pool, fit.device()))});
  }
  table.Print(context.out(), context.headers());
}

// Returns "[-1,12,past,64]": varying dimensions by their names, if they have
// some.
std::string ShapeText(const v1::TensorSpec& spec) {
  std::vector<std::string> shape;
  for (const int64_t size : spec.shape()) shape.push_back(absl::StrCat(size));
  for (const v1::VariableDimension& variable : spec.variable()) {
    if (variable.axis() >= shape.size()) continue;
    std::string& text = shape[variable.axis()];
    if (!variable.name().empty()) text = variable.name();
    if (!variable.size().empty()) text = variable.size();
  }
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

}  // namespace

void PrintTensors(const Context& context, const v1::Plan& plan) {
  Table table({{"TENSOR"}, {"NAME"}, {"TYPE"}, {"SHAPE"}});
  const auto add = [&](const char* what, const v1::TensorSpec& spec) {
    table.AddRow({what, spec.name(),
                  absl::AsciiStrToLower(v1::DataType_Name(spec.data_type())),
                  ShapeText(spec)});
  };
  for (const v1::TensorSpec& spec : plan.inputs()) add("input", spec);
  for (const v1::TensorSpec& spec : plan.outputs()) add("output", spec);
  table.Print(context.out(), context.headers());
}

std::string FitText(const v1::DeviceFit& fit, const v1::Device* device) {
  if (!fit.fits_ever()) return "never";
  if (device == nullptr) return fit.fits_now() ? "now" : "later";
  if (std::string closed = ClosedText(*device); !closed.empty()) return closed;
  if (fit.fits_now()) return "now";
  if (!device->job_ids().empty()) return "when others end";
  if (!device->versions().empty()) return "when models are unloaded";
  if (IsReserved(*device)) return "when its reservation ends";
  return device->memory_fraction() < 1 ? "with a larger memory fraction"
                                       : "later";
}

void PrintPlanParts(
    const Context& context, const v1::Plan& plan,
    const google::protobuf::RepeatedPtrField<v1::DeviceFit>& fits,
    const v1::ListDevicesResponse& pool) {
  std::ostream& out = *context.out().stream;
  PrintBytes(context, plan);
  out << "\n";
  PrintTensors(context, plan);
  out << "\n";
  PrintLayers(context, plan);
  out << "\n";
  PrintFits(context, fits, pool);
  for (const std::string& warning : plan.warnings()) {
    const bool is_note = absl::StartsWith(warning, "note: ");
    context.Say(is_note ? warning : absl::StrCat("warning: ", warning));
  }
}

}  // namespace gpupool::client
