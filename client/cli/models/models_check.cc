// gpupool models check: what a model file is and what the server would do with
// it. Asks no server. The worker binary checks the file, because only the
// worker has the engine, and so that a file that ends it ends nothing else.
#include <google/protobuf/util/json_util.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/command/worker_program.h"
#include "client/cli/models/check_view.h"
#include "client/cli/models/model_file_options.h"
#include "client/files/local_file.h"
#include "gpupool/v1/limits.pb.h"
#include "gpupool/v1/model_check.pb.h"

namespace gpupool::client {
namespace {

// Compiling the largest files takes about a minute.
constexpr absl::Duration kLimit = absl::Minutes(10);
constexpr uint32_t kMostCheckedRows = v1::MAX_TRAINING_ROWS;

struct ModelCheckOptions {
  ModelFileOptions model;
  uint32_t training_batch = 32;
  std::string worker_binary;
};

// A file in memory, which a child process can open by its path and of which
// nothing remains, however both end.
class AnonymousFile {
 public:
  // Writes `text`.
  static absl::StatusOr<std::unique_ptr<AnonymousFile>> Create(
      const std::string& text) {
    // Inherited by the child.
    const int descriptor = ::memfd_create("gpupool-check", 0);
    if (descriptor < 0) {
      return absl::ErrnoToStatus(errno, "cannot create a file in memory");
    }
    auto file = std::make_unique<AnonymousFile>(descriptor);
    for (size_t done = 0; done < text.size();) {
      const ssize_t count =
          ::write(descriptor, text.data() + done, text.size() - done);
      if (count < 0) {
        return absl::ErrnoToStatus(errno, "cannot write a file in memory");
      }
      done += static_cast<size_t>(count);
    }
    return file;
  }
  explicit AnonymousFile(int descriptor) : descriptor_(descriptor) {}
  ~AnonymousFile() { ::close(descriptor_); }
  AnonymousFile(const AnonymousFile&) = delete;
  AnonymousFile& operator=(const AnonymousFile&) = delete;

  std::string path() const {
    return absl::StrCat("/proc/self/fd/", descriptor_);
  }

 private:
  const int descriptor_;
};

absl::StatusOr<std::string> RequestJson(const ModelCheckOptions& options) {
  absl::StatusOr<v1::ModelSpec> spec = ReadModelSpec(options.model);
  if (!spec.ok()) return spec.status();
  if (spec->has_onnx()) {
    const absl::Status file = LocalFile::Open(options.model.file).status();
    if (!file.ok()) return file;
  }
  v1::PlanModelRequest request;
  *request.mutable_spec() = *std::move(spec);
  request.set_max_batch_size(options.model.max_batch_size);
  request.set_max_programs(options.model.max_programs);
  request.set_precision(PrecisionOf(options.model.precision));
  std::string json;
  google::protobuf::util::MessageToJsonString(request, &json);
  return json;
}

absl::StatusOr<v1::ModelCheck> ReadAnswer(const ProgramOutput& output,
                                          const std::string& file) {
  v1::ModelCheck check;
  if (output.signal != 0) {
    return absl::InternalError(
        absl::StrCat("gpupool-worker ", EndText(output), " while it checked ",
                     file, "; the server would refuse the file too"));
  }
  const auto read =
      google::protobuf::util::JsonStringToMessage(output.text, &check);
  if (output.exit_code != 0 || !read.ok()) {
    return absl::UnavailableError(
        absl::StrCat("gpupool-worker check ", EndText(output),
                     " and gave no report; install gpupool and gpupool-worker "
                     "of one build"));
  }
  check.set_file(file);
  if (check.refused().empty()) return check;
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", check.refused()));
}

int Check(Context& context, const ModelCheckOptions& options) {
  const std::string& file = options.model.file;
  const auto json = RequestJson(options);
  if (!json.ok()) return context.Fail(json.status());
  const auto request = AnonymousFile::Create(*json);
  if (!request.ok()) return context.Fail(request.status());
  const absl::Duration limit =
      context.options().timeout_given ? context.options().timeout : kLimit;
  const auto output = RunWorkerCommand(
      context,
      {WorkerBinary(options.worker_binary), "check", "--training-batch",
       absl::StrCat(options.training_batch), (*request)->path()},
      limit);
  if (absl::IsCancelled(output.status())) return kInterrupted;
  if (!output.ok()) return context.Fail(output.status());
  const auto check = ReadAnswer(*output, file);
  if (!check.ok()) return context.Fail(check.status());
  context.Print(*check, [&] { PrintCheck(context, *check); });
  return check->serving().refused().empty() ? kOk : kFailure;
}

}  // namespace

void AddModelsCheck(CLI::App& models, Invocation& invocation) {
  auto options = std::make_shared<ModelCheckOptions>();
  CLI::App* verb = AddVerb(
      models, "check",
      "Show what a model file is, whether it can be served and trained, and "
      "what its exporter may have changed. No server is asked. The exit code "
      "is 1 when it cannot be served.",
      "  gpupool models check resnet18.onnx\n"
      "  gpupool models check encoder.onnx --dimension sequence=128 -o json");
  AddModelFileOptions(*verb, options->model);
  verb->add_option("--training-batch", options->training_batch,
                   "Rows of the training step to plan (default: 32)")
      ->check(CLI::Range(1u, kMostCheckedRows))
      ->type_name("N");
  AddWorkerBinary(*verb, options->worker_binary);
  invocation.On(verb, [options](Context& c) { return Check(c, *options); });
}

}  // namespace gpupool::client
