// gpupool models upload, plan and export: models as files.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/models/data_options.h"
#include "client/cli/models/model_file_options.h"
#include "client/cli/models/model_view.h"
#include "client/cli/models/plan_view.h"
#include "client/cli/models/wait_version.h"
#include "client/model_files.h"
#include "client/request_texts.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

struct PlanOptions {
  ModelFileOptions model;
  std::string weights;
};

struct UploadOptions {
  ModelFileOptions model;
  std::string name;
  std::string weights;
  uint32_t max_queue_delay_microseconds = 0;
  bool benchmark = false;
  bool decoupled = false;
  bool no_wait = false;
};

struct ExportOptions {
  std::string model;
  std::string file;
  std::string format = "onnx";
};

// Returns the model's spec. Its files are uploaded: an ONNX file, and `weights`
// unless that is empty.
absl::StatusOr<v1::ModelSpec> ReadModel(Context& context, Client& client,
                                        const ModelFileOptions& options,
                                        const std::string& weights) {
  absl::StatusOr<v1::ModelSpec> spec = ReadModelSpec(options);
  if (!spec.ok()) return spec;
  if (!weights.empty()) spec->mutable_weights()->set_file(weights);
  if (!spec->has_onnx() && !spec->has_weights()) return spec;
  const absl::Status status =
      UploadModelFiles(client, "", UploadLine(context, options.file), *spec);
  ClearUploadLine(context);
  if (!status.ok()) return status;
  return spec;
}

int Upload(Context& context, const UploadOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::UploadModelRequest::Header header;
  header.set_name(options.name);
  // Before the files are sent, which may take long.
  const absl::Status texts = CheckTexts(header);
  if (!texts.ok()) return context.Fail(texts);
  absl::StatusOr<v1::ModelSpec> spec =
      ReadModel(context, **client, options.model, options.weights);
  if (!spec.ok()) return context.Fail(spec.status());
  if (!spec->has_onnx() && !spec->has_weights()) {
    return context.Fail(absl::InvalidArgumentError(absl::StrCat(
        options.model.file,
        " has layers without weights; give them with --weights FILE")));
  }
  *header.mutable_spec() = *std::move(spec);
  header.mutable_serving()->set_max_batch_size(options.model.max_batch_size);
  header.mutable_serving()->set_max_programs(options.model.max_programs);
  header.mutable_serving()->set_max_queue_delay_microseconds(
      options.max_queue_delay_microseconds);
  header.mutable_serving()->set_precision(PrecisionOf(options.model.precision));
  header.mutable_serving()->set_benchmark(options.benchmark);
  header.mutable_serving()->set_decoupled(options.decoupled);
  absl::StatusOr<v1::ModelVersion> version = UploadModel(**client, header);
  if (!version.ok()) return context.Fail(version.status());
  for (const std::string& warning : version->plan().warnings()) {
    context.Say(absl::StrCat("warning: ", warning));
  }
  if (options.no_wait) return ReportVersion(context, *version);
  const ClientOptions& limits = (*client)->options();
  version = AwaitServed(context, **client, *std::move(version),
                        std::max(limits.call_timeout, limits.wait_timeout));
  if (absl::IsCancelled(version.status())) return kInterrupted;
  if (!version.ok()) return context.Fail(version.status());
  return ReportVersion(context, *version);
}

int Plan(Context& context, const PlanOptions& given) {
  const ModelFileOptions& options = given.model;
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  absl::StatusOr<v1::ModelSpec> spec =
      ReadModel(context, **client, options, given.weights);
  if (!spec.ok()) return context.Fail(spec.status());
  v1::PlanModelRequest request;
  *request.mutable_spec() = *std::move(spec);
  request.set_max_batch_size(options.max_batch_size);
  request.set_max_programs(options.max_programs);
  request.set_precision(PrecisionOf(options.precision));
  const auto answer = (*client)->PlanModel(request);
  if (!answer.ok()) return context.Fail(answer.status());
  context.Print(*answer, [&] {
    const auto pool = (*client)->ListDevices({});
    const v1::Plan& plan = answer->plan();
    *context.out().stream << options.file << ": "
                          << GroupDigits(plan.parameters()) << " parameters, "
                          << FormatCount(static_cast<double>(
                                 plan.inference_flops_per_example()))
                          << " FLOPs per example\n\n";
    PrintPlanParts(context, plan, answer->devices(),
                   pool.ok() ? *pool : v1::ListDevicesResponse());
  });
  return kOk;
}

int Export(Context& context, const ExportOptions& options) {
  const absl::StatusOr<VersionName> name = ParseVersionName(options.model);
  if (!name.ok()) return context.Fail(name.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ExportModelRequest request;
  request.set_model(name->model);
  request.set_version(name->version);
  request.set_format(options.format == "onnx"
                         ? v1::ExportModelRequest::ONNX
                         : v1::ExportModelRequest::SAFETENSORS);
  const auto header = ExportModel(**client, request, options.file,
                                  DownloadLine(context, options.file));
  ClearUploadLine(context);
  if (!header.ok()) return context.Fail(header.status());
  context.Print(*header, [&] {
    *context.out().stream << options.file << ": " << header->model()
                          << " version " << header->version() << ", "
                          << FormatBytes(header->total_bytes()) << "\n";
  });
  return kOk;
}

void AddWeights(CLI::App& verb, std::string& weights) {
  verb.add_option("--weights", weights,
                  "Weights by name, safetensors: those of layers, or in place "
                  "of an ONNX file's")
      ->type_name("FILE");
}

}  // namespace

void AddModelsFiles(CLI::App& models, Invocation& invocation) {
  auto upload_options = std::make_shared<UploadOptions>();
  CLI::App* upload = AddVerb(
      models, "upload",
      "Make a new version of a model from a file and serve it: an ONNX model, "
      "or layers with their weights as safetensors.",
      "  gpupool models upload resnet resnet18.onnx --max-batch-size 8\n"
      "  gpupool models upload encoder encoder.onnx \\\n"
      "      --dimension sequence=64,128 --pad ids=0 --pad mask=0\n"
      "  gpupool models upload decoder decoder.onnx --dimension sequence=1 \\\n"
      "      --dimension past=0:512 --dimension total=past+sequence\n"
      "  gpupool models upload digits layers.yaml --weights w.safetensors\n"
      "  gpupool models upload resnet resnet18.onnx --weights w.safetensors");
  upload->add_option("NAME", upload_options->name, "Name of the model")
      ->required();
  AddModelFileOptions(*upload, upload_options->model);
  AddWeights(*upload, upload_options->weights);
  upload
      ->add_option("--max-queue-delay-microseconds",
                   upload_options->max_queue_delay_microseconds,
                   "How long a request may wait to share a batch (default: 0)")
      ->type_name("N");
  upload->add_flag("--benchmark", upload_options->benchmark,
                   "On GPUs measure the kernels of convolutions and take the "
                   "fastest; loading takes longer");
  upload->add_flag("--decoupled", upload_options->decoupled,
                   "Answer a request with one response for each iteration of "
                   "the model's Loop, by ModelStreamInfer");
  upload->add_flag("--no-wait", upload_options->no_wait,
                   "Return before the version is served");
  invocation.On(upload, [upload_options](Context& c) {
    return Upload(c, *upload_options);
  });

  auto plan_options = std::make_shared<PlanOptions>();
  CLI::App* plan =
      AddVerb(models, "plan",
              "Show what serving a model file needs and on which devices it "
              "fits. All unsupported operators are listed.",
              "  gpupool models plan resnet18.onnx --max-batch-size 8\n"
              "  gpupool models plan resnet18.onnx --precision bf16");
  AddModelFileOptions(*plan, plan_options->model);
  AddWeights(*plan, plan_options->weights);
  invocation.On(plan,
                [plan_options](Context& c) { return Plan(c, *plan_options); });

  auto export_options = std::make_shared<ExportOptions>();
  CLI::App* export_verb = AddVerb(
      models, "export",
      "Write a version to a file: as an ONNX model, or only its weights as "
      "safetensors.",
      "  gpupool models export digits -O digits.onnx\n"
      "  gpupool models export digits/2 -O w.safetensors --format safetensors");
  export_verb
      ->add_option("MODEL", export_options->model,
                   "MODEL or MODEL/VERSION (default: the newest)")
      ->required();
  export_verb->add_option("-O,--file", export_options->file, "File to write")
      ->required()
      ->type_name("FILE");
  export_verb
      ->add_option("--format", export_options->format,
                   "onnx or safetensors (default: onnx)")
      ->check(CLI::IsMember({"onnx", "safetensors"}))
      ->type_name("FORMAT");
  invocation.On(export_verb, [export_options](Context& c) {
    return Export(c, *export_options);
  });
}

}  // namespace gpupool::client
