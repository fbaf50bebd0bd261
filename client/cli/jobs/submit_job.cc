#include "client/cli/jobs/submit_job.h"

#include <CLI/App.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/model_files.h"
#include "client/yaml/yaml_message.h"

namespace gpupool::client {
namespace {

std::string Stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.find('.'));
}

// Returns the file's folder. For standard input, returns the current folder.
std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

absl::StatusOr<JobOrArray> Send(Client& client,
                                const v1::SubmitJobRequest& request) {
  if (request.spec().has_array()) {
    absl::StatusOr<v1::JobArray> array = client.SubmitArray(request);
    if (!array.ok()) return array.status();
    return JobOrArray(*std::move(array));
  }
  absl::StatusOr<v1::Job> job = client.SubmitJob(request);
  if (!job.ok()) return job.status();
  return JobOrArray(*std::move(job));
}

}  // namespace

void AddJobFileOptions(CLI::App& verb, SubmitOptions& options) {
  verb.add_option("FILE", options.file,
                  "The job, as YAML (see examples/); - reads standard input")
      ->required();
  verb.add_option("--name", options.name,
                  "Name of the job (default: the job file's)")
      ->type_name("NAME");
  verb.add_option(
          "--queue", options.queue,
          "Queue of the job (default: the job file's; see `gpupool queues`)")
      ->type_name("NAME");
  AddDataOption(verb, options.data);
}

void AddSubmitOptions(CLI::App& verb, SubmitOptions& options) {
  AddJobFileOptions(verb, options);
  verb.add_option("--request-id", options.request_id,
                  "Makes the submission repeatable: the same id returns the "
                  "same job, and nothing runs twice (default: random)")
      ->type_name("ID");
}

absl::StatusOr<v1::JobSpec> ReadJobFile(const std::string& path) {
  v1::JobSpec spec;
  absl::Status read = YamlFileToMessage(path, spec);
  if (!read.ok()) return read;
  if (spec.name().empty() && path != "-") spec.set_name(Stem(path));
  return spec;
}

absl::Status EnsureModel(Context& context, Client& client,
                         const std::string& job_file, v1::JobSpec& spec) {
  std::string path = spec.model().onnx().file();
  if (path.empty()) path = spec.model().weights().file();
  if (path.empty()) return absl::OkStatus();
  const absl::Status sent =
      UploadModelFiles(client, Folder(job_file), UploadLine(context, path),
                       *spec.mutable_model());
  ClearUploadLine(context);
  return sent;
}

absl::StatusOr<v1::JobSpec> ReadJob(const SubmitOptions& options) {
  absl::StatusOr<v1::JobSpec> spec = ReadJobFile(options.file);
  if (!spec.ok()) return spec;
  if (!options.name.empty()) spec->set_name(options.name);
  if (!options.queue.empty()) spec->set_queue(options.queue);
  return spec;
}

absl::Status EnsureFiles(Context& context, Client& client,
                         const SubmitOptions& options, v1::JobSpec& spec) {
  absl::Status model = EnsureModel(context, client, options.file, spec);
  if (!model.ok()) return model;
  const std::string& dataset = spec.data().dataset();
  if (absl::StrContains(dataset, "${index}") && !options.data.file.empty()) {
    return absl::InvalidArgumentError(
        "--data is one dataset, but data.dataset names a different one for "
        "each task; upload them with `gpupool datasets upload`");
  }
  return EnsureData(context, client, dataset, options.data);
}

absl::StatusOr<JobOrArray> SubmitSpec(Client& client,
                                      const v1::SubmitJobRequest& request) {
  absl::StatusOr<JobOrArray> job = Send(client, request);
  if (absl::IsNotFound(job.status()) &&
      absl::StrContains(
          job.status().message(),
          absl::StrCat("dataset \"", request.spec().data().dataset(), "\""))) {
    return absl::NotFoundError(absl::StrCat(
        job.status().message(), ", or give the file with --data FILE"));
  }
  return job;
}

absl::StatusOr<JobOrArray> SubmitFile(Context& context, Client& client,
                                      const SubmitOptions& options) {
  absl::StatusOr<v1::JobSpec> spec = ReadJob(options);
  if (!spec.ok()) return spec.status();
  const absl::Status ready = EnsureFiles(context, client, options, *spec);
  if (!ready.ok()) return ready;
  v1::SubmitJobRequest request;
  request.set_request_id(options.request_id.empty() ? NewRequestId()
                                                    : options.request_id);
  *request.mutable_spec() = *std::move(spec);
  absl::StatusOr<JobOrArray> job = SubmitSpec(client, request);
  if (absl::IsUnavailable(job.status())) {
    context.Say(
        absl::StrCat("it is not known whether the job was accepted; repeat "
                     "safely with --request-id ",
                     request.request_id()));
  }
  return job;
}

}  // namespace gpupool::client
