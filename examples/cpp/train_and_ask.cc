// Trains a small network on the digits, serves it, and asks it about every
// image of the file.
//
//   train_and_ask examples/data/digits.csv.gz [ADDRESS]
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/files/csv_rows.h"
#include "client/inference.h"
#include "client/upload.h"
#include "client/watch.h"

namespace {

namespace client = gpupool::client;
namespace v1 = gpupool::v1;

v1::SubmitJobRequest DigitsJob() {
  v1::SubmitJobRequest request;
  // Repeats of a call that was cut off return the job of the first.
  request.set_request_id(client::NewRequestId());
  v1::JobSpec& job = *request.mutable_spec();
  job.set_name("digits-cpp");
  job.mutable_model()->add_input_shape(64);
  job.mutable_model()->add_layers()->mutable_dense()->set_units(64);
  job.mutable_model()->add_layers()->mutable_relu();
  job.mutable_model()->add_layers()->mutable_dense()->set_units(10);
  job.mutable_data()->set_dataset("digits");
  job.mutable_data()->mutable_held_out()->set_every(5);
  job.mutable_training()->mutable_cross_entropy();
  job.mutable_training()->mutable_adam();
  job.mutable_training()->set_batch_size(32);
  job.mutable_training()->set_epochs(10);
  job.mutable_publish()->set_on_success(true);
  return request;
}

// Prints the job's progress until it ends. Fails when it does not succeed.
absl::Status Follow(client::Client& server, uint64_t job) {
  v1::StateChange last;
  absl::Status watched =
      client::WatchJob(server, job, {}, [&](const v1::JobEvent& event) {
        if (event.has_progress()) {
          std::printf(
              "step %llu of %llu, loss %.4f\n",
              static_cast<unsigned long long>(event.progress().step()),
              static_cast<unsigned long long>(event.progress().total_steps()),
              event.progress().loss());
        }
        if (event.has_state_change()) last = event.state_change();
        return true;
      });
  if (!watched.ok()) return watched;
  if (last.to() == v1::SUCCEEDED) return absl::OkStatus();
  return absl::InternalError(
      "job " + std::to_string(job) + ": " +
      (last.has_error() ? last.error().message() : last.reason()));
}

// Loads the newest version and returns once it answers.
absl::Status Load(client::Client& server, const std::string& model) {
  v1::LoadVersionRequest request;
  request.set_model(model);
  request.set_wait(true);
  return server.LoadVersion(request).status();
}

absl::Status Ask(client::Client& server, const std::string& model,
                 const client::CsvRows& images) {
  std::vector<size_t> all(images.rows);
  std::iota(all.begin(), all.end(), 0);
  const absl::StatusOr<client::InferenceRun> run = client::RunInference(
      server, {.model = model, .batch = 32, .concurrency = 4},
      {.table = images, .positions = all});
  if (!run.ok()) return run.status();
  size_t right = 0;
  for (size_t row = 0; row < run->rows; ++row) {
    right += client::ArgMax(run->Row(row)) ==
             static_cast<size_t>(images.labels[row]);
  }
  std::printf("%zu of %zu images are read right\n", right, run->rows);
  return absl::OkStatus();
}

absl::Status Run(const std::string& file, const std::string& address) {
  const absl::StatusOr<std::unique_ptr<client::Client>> server =
      client::Client::Create({.address = address});
  if (!server.ok()) return server.status();
  const absl::StatusOr<client::CsvRows> images = client::ReadCsv(file, {});
  if (!images.ok()) return images.status();

  v1::DatasetLayout layout;
  layout.set_format(v1::CSV);
  const auto data = client::EnsureDataset(
      **server, {.name = "digits", .layout = layout, .file = file}, nullptr);
  if (!data.ok()) return data.status();

  const absl::StatusOr<v1::Job> job = (*server)->SubmitJob(DigitsJob());
  if (!job.ok()) return job.status();
  if (auto status = Follow(**server, job->id()); !status.ok()) return status;
  if (auto status = Load(**server, "digits-cpp"); !status.ok()) return status;
  return Ask(**server, "digits-cpp", *images);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s FILE.csv.gz [ADDRESS]\n", argv[0]);
    return 2;
  }
  const absl::Status status =
      Run(argv[1], argc > 2 ? argv[2] : client::DefaultAddress());
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
