#include "tests/server/api/api_fixture.h"

#include <utility>

#include "gpupool/v1/dataset.grpc.pb.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "server/control/models/dataset_requests.h"
#include "tests/wait_until.h"

namespace gpupool::server {

void FakeWorkers::Send(const std::string& device, worker::v1::ToWorker message,
                       absl::Duration, ReplyCallback callback) {
  worker::v1::FromWorker reply;
  if (message.has_plan_inference()) planned = message.plan_inference();
  if (message.has_plan_training() || message.has_plan_inference()) {
    auto* plan = reply.mutable_plan();
    plan->set_total_steps(10);
    plan->mutable_plan()->mutable_training()->set_peak(1000);
    plan->mutable_plan()->mutable_inference()->set_peak(100);
  } else if (message.has_import_model()) {
    auto* import = reply.mutable_import_model();
    import->mutable_plan()->mutable_inference()->set_peak(100);
    import->set_manifest_sha256(message.import_model().weights_sha256());
  } else if (message.has_export_model()) {
    reply.mutable_export_model()->set_sha256(exported);
    reply.mutable_export_model()->set_bytes(exported_bytes);
  } else if (message.has_dump_memory()) {
    reply.mutable_dump_memory()->set_sha256(exported);
    reply.mutable_dump_memory()->set_bytes(exported_bytes);
  } else if (message.has_profile_job()) {
    reply.mutable_profile_job()->set_sha256(exported);
    reply.mutable_profile_job()->set_bytes(exported_bytes);
    reply.mutable_profile_job()->set_steps(message.profile_job().steps());
  } else if (message.has_inspect_dataset()) {
    reply.mutable_dataset()->set_rows(10);
    reply.mutable_dataset()->add_feature_shape(64);
    reply.mutable_dataset()->set_classes(10);
    reply.mutable_dataset()->mutable_description()->set_dropped_rows(3);
  } else if (message.has_get_memory()) {
    reply.mutable_memory()->mutable_stats()->set_device(device);
    reply.mutable_memory()->set_summary("a table");
  }
  callback(std::move(reply));
}

void FakeWorkers::Post(const std::string&, worker::v1::ToWorker message) {
  absl::MutexLock lock(&mutex_);
  if (message.has_start_job()) starts_.push_back(message.start_job());
}

worker::v1::StartJob FakeWorkers::AwaitStart() {
  absl::MutexLock lock(&mutex_);
  const bool came = mutex_.AwaitWithTimeout(
      absl::Condition(
          +[](FakeWorkers* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
            return self->starts_.size() > self->taken_;
          },
          this),
      kPatience);
  EXPECT_TRUE(came) << "no job was started";
  return came ? starts_[taken_++] : worker::v1::StartJob();
}

void ApiFixture::SetUp() {
  store_ = *Store::Open(directory_ / "gpupool.db");
  // Longer than any test takes, so that a slow machine changes nothing.
  blobs_ = *BlobStore::Open(directory_ / "blobs", {.silence = absl::Hours(1)});
  auto control = ControlLoop::Create(
      {.devices = {{"cpu:0", uint64_t{1} << 30, 1}},
       .queue_limit = 4096,
       .keeps_tenants_apart = Gate() != nullptr,
       .scheduling = {.tenants = Tenants()}},
      {.store = store_.get(),
       .blobs = blobs_.get(),
       .fatal = [](const absl::Status& status) { FAIL() << status; }});
  ASSERT_TRUE(control.ok()) << control.status();
  control_ = *std::move(control);
  control_->Start(&workers_, nullptr);
  worker::v1::HelloReply hello;
  hello.set_worker_boot_id("boot");
  hello.set_device("cpu:0");
  control_->OnWorkerReady("cpu:0", hello);
  hello.set_device(kMetaDevice);
  control_->OnWorkerReady(kMetaDevice, hello);
  auto api = ApiServer::Start(
      Options(), {.control = &control_->context(),
                  .blobs = blobs_.get(),
                  .gate = Gate(),
                  .hooks = {.info =
                                [] {
                                  v1::ServerInfo info;
                                  info.set_version("1.2.3");
                                  return info;
                                },
                            .stop = [this] { stop_asked_.Notify(); },
                            .database = directory_ / "gpupool.db"}});
  ASSERT_TRUE(api.ok()) << api.status();
  api_ = *std::move(api);
  channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(api_->port()),
                                 grpc::InsecureChannelCredentials());
}

void ApiFixture::TearDown() {
  api_.reset();
  if (control_ != nullptr) control_->Stop();
}

void ApiFixture::AddDataset() {
  v1::Dataset dataset;
  dataset.set_name("digits");
  dataset.mutable_layout()->set_format(v1::CSV);
  v1::DatasetFile* file = dataset.add_files();
  file->set_role(v1::DatasetFile::TABLE);
  file->set_file_name("digits.csv");
  file->set_sha256(*blobs_->Put("1,2\n"));
  file->set_total_bytes(4);
  absl::Notification done;
  RegisterDataset(control_->context(), dataset,
                  [&](absl::StatusOr<v1::Dataset> result) {
                    EXPECT_TRUE(result.ok()) << result.status();
                    done.Notify();
                  });
  done.WaitForNotification();
}

v1::SubmitJobRequest ApiFixture::NewJob(const std::string& request_id) {
  v1::SubmitJobRequest request;
  request.set_request_id(request_id);
  v1::JobSpec* spec = request.mutable_spec();
  spec->set_name("digits");
  spec->mutable_model()->add_input_shape(64);
  spec->mutable_model()->add_layers()->mutable_dense()->set_units(10);
  spec->mutable_data()->set_dataset("digits");
  spec->mutable_training()->mutable_cross_entropy();
  spec->mutable_training()->mutable_adam();
  spec->mutable_training()->set_batch_size(2);
  spec->mutable_training()->set_steps(10);
  return request;
}

worker::v1::StartJob ApiFixture::StartJob() {
  AddDataset();
  grpc::ClientContext context;
  v1::Job job;
  const grpc::Status status = v1::JobService::NewStub(channel_)->SubmitJob(
      &context, NewJob("first"), &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return workers_.AwaitStart();
}

void ApiFixture::Report(const worker::v1::StartJob& job,
                        worker::v1::Report report) {
  report.set_sequence(++report_sequence_);
  report.set_job_id(job.job_id());
  report.set_attempt(job.attempt());
  control_->OnReport("cpu:0", report);
}

void ApiFixture::ReportProgress(const worker::v1::StartJob& job,
                                uint64_t step) {
  worker::v1::Report report;
  if (step == 1) {
    report.mutable_started()->set_total_steps(10);
    Report(job, report);
  }
  report.mutable_progress()->set_step(step);
  Report(job, report);
}

void ApiFixture::ReportSuccess(const worker::v1::StartJob& job) {
  worker::v1::Report report;
  report.mutable_ended()->set_outcome(worker::v1::JobEnded::SUCCEEDED);
  Report(job, report);
}

}  // namespace gpupool::server
