// gpupool models named: the models that the server makes the layers of.
#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {
namespace {

// Returns "3x224x224" for a tensor [-1, 3, 224, 224].
std::string ExampleText(const v1::TensorSpec& tensor) {
  std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
  if (!shape.empty()) shape.erase(shape.begin());
  return absl::StrJoin(shape, "x");
}

void PrintNamed(const Context& context, const v1::NamedModels& models) {
  Table table({{"NAME"},
               {"INPUT"},
               {"OUTPUT"},
               {"PARAMETERS", Table::kRight},
               {"FLOPS", Table::kRight}});
  for (const v1::NamedModelPlan& model : models.models()) {
    const v1::Plan& plan = model.plan();
    table.AddRow(
        {model.name(), plan.inputs().empty() ? "" : ExampleText(plan.inputs(0)),
         plan.outputs().empty() ? "" : ExampleText(plan.outputs(0)),
         GroupDigits(plan.parameters()),
         FormatCount(static_cast<double>(plan.inference_flops_per_example()))});
  }
  table.Print(context.out(), context.headers());
}

// Plans every named model with its defaults.
int ListNamed(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::NamedModels models;
  const auto* kinds = v1::NamedModel::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds->field_count(); ++i) {
    v1::PlanModelRequest request;
    v1::NamedModel& named = *request.mutable_spec()->mutable_named();
    named.GetReflection()->MutableMessage(&named, kinds->field(i));
    request.set_max_batch_size(1);
    const auto answer = (*client)->PlanModel(request);
    if (!answer.ok()) return context.Fail(answer.status());
    v1::NamedModelPlan& model = *models.add_models();
    model.set_name(kinds->field(i)->name());
    *model.mutable_plan() = answer->plan();
  }
  context.Print(models, [&] { PrintNamed(context, models); });
  return kOk;
}

}  // namespace

void AddModelsNamed(CLI::App& models, Invocation& invocation) {
  invocation.On(
      AddVerb(models, "named",
              "List the models that go by a name in job files, with what "
              "serving one row of each takes.",
              "  gpupool models named\n"
              "  gpupool models named -o json"),
      ListNamed);
}

}  // namespace gpupool::client
