#include "tests/server/control/control_fixture.h"

#include "server/control/jobs/admission.h"
#include "server/control/jobs/job_requests.h"
#include "server/control/models/dataset_requests.h"

namespace gpupool::server {

bool Eventually(const std::function<bool()>& condition) {
  return WaitUntil(condition);
}

void ControlTest::SetUp() {
  std::string name = std::filesystem::temp_directory_path() / "gpupoolXXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  folder = name;
  options.devices = {{"cpu:0", kLimit, 1}};
  options.remembered_rehearsals = rehearsal ? 2 : 0;
  options.groups_folder = folder / "groups";
  blobs = *BlobStore::Open(folder / "blobs");
  StartLoop();
}

void ControlTest::TearDown() {
  loop.reset();
  store.reset();
  std::filesystem::remove_all(folder);
}

void ControlTest::StartLoop() {
  auto opened = Store::Open(folder / "gpupool.db");
  ASSERT_TRUE(opened.ok()) << opened.status();
  store = *std::move(opened);
  workers = std::make_unique<FakeWorkers>();
  workers->meta = [this](const worker::v1::ToWorker& message)
      -> absl::StatusOr<worker::v1::FromWorker> {
    worker::v1::FromWorker reply;
    if (message.has_inspect_dataset()) {
      reply.mutable_dataset()->set_rows(10);
      reply.mutable_dataset()->add_feature_shape(4);
      return reply;
    }
    v1::Plan& plan = *reply.mutable_plan()->mutable_plan();
    plan.mutable_training()->set_peak(planned_bytes);
    plan.mutable_inference()->set_peak(50);
    reply.mutable_plan()->set_total_steps(20);
    return reply;
  };
  if (rehearsal) workers->rehearsal = rehearsal;
  sink = std::make_unique<FakeSink>();
  metrics = std::make_unique<Metrics>();
  ControlDependencies dependencies;
  dependencies.metrics = metrics.get();
  dependencies.tracer = tracer;
  dependencies.store = store.get();
  dependencies.blobs = blobs.get();
  auto created = ControlLoop::Create(options, dependencies);
  ASSERT_TRUE(created.ok()) << created.status();
  loop = *std::move(created);
  loop->Start(workers.get(), sink.get());
}

void ControlTest::Restart() {
  loop.reset();
  store.reset();
  StartLoop();
}

void ControlTest::Hello(const std::string& device,
                        std::vector<std::pair<uint64_t, uint32_t>> running,
                        std::vector<uint64_t> loaded) {
  worker::v1::HelloReply reply;
  for (const auto& [job, attempt] : running) {
    auto& item = *reply.add_running();
    item.set_job_id(job);
    item.set_attempt(attempt);
  }
  for (uint64_t id : loaded) reply.add_loaded_version_ids(id);
  loop->OnWorkerReady(device, reply);
}

void ControlTest::Report(const std::string& device, worker::v1::Report report) {
  report.set_sequence(++sequence);
  loop->OnReport(device, report);
}

void ControlTest::ReportStarted(uint64_t job, uint32_t attempt) {
  worker::v1::Report report;
  report.set_job_id(job);
  report.set_attempt(attempt);
  report.mutable_started()->set_total_steps(20);
  Report("cpu:0", report);
}

void ControlTest::ReportProgress(uint64_t job, uint32_t attempt,
                                 uint64_t step) {
  worker::v1::Report report;
  report.set_job_id(job);
  report.set_attempt(attempt);
  report.mutable_progress()->set_step(step);
  Report("cpu:0", report);
}

void ControlTest::ReportCheckpoint(uint64_t job, uint32_t attempt,
                                   uint64_t step) {
  worker::v1::Report report;
  report.set_job_id(job);
  report.set_attempt(attempt);
  report.mutable_checkpoint()->set_step(step);
  report.mutable_checkpoint()->set_manifest_sha256(std::string(64, 'a'));
  Report("cpu:0", report);
}

void ControlTest::ReportEnded(uint64_t job, uint32_t attempt,
                              worker::v1::JobEnded::Outcome outcome,
                              const EndDetails& details) {
  worker::v1::Report report;
  report.set_job_id(job);
  report.set_attempt(attempt);
  report.mutable_ended()->set_outcome(outcome);
  *report.mutable_ended()->mutable_error() = details.error;
  Report(details.device, report);
}

void ControlTest::AddDataset(const std::string& name) {
  v1::Dataset dataset;
  dataset.set_name(name);
  v1::DatasetFile& file = *dataset.add_files();
  file.set_role(v1::DatasetFile::TABLE);
  file.set_file_name(name + ".csv");
  file.set_sha256(*blobs->Put("1,2,3," + name));
  Answer<v1::Dataset> answer;
  RegisterDataset(control(), dataset, answer.callback());
  const auto added = answer.Wait();
  ASSERT_TRUE(added.ok()) << added.status();
}

v1::SubmitJobRequest ControlTest::Request(const std::string& request_id) {
  v1::SubmitJobRequest request;
  request.set_request_id(request_id);
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("digits");
  spec.set_tenant("default");
  spec.mutable_data()->set_dataset("digits");
  spec.mutable_retry()->set_backoff_seconds(0.02);
  return request;
}

absl::StatusOr<v1::Job> ControlTest::Submit(
    const v1::SubmitJobRequest& request) {
  Answer<v1::Job> answer;
  SubmitJob(control(), request, answer.callback());
  return answer.Wait();
}

v1::Job ControlTest::SubmitAndStart(const v1::SubmitJobRequest& request) {
  const auto job = Submit(request);
  EXPECT_TRUE(job.ok()) << job.status();
  FakeWorkers::Pending post;
  EXPECT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.start_job().job_id(), job->id());
  return *job;
}

v1::Job ControlTest::FinishedJob(const std::string& request_id, bool publish) {
  v1::SubmitJobRequest request = Request(request_id);
  request.mutable_spec()->mutable_publish()->set_on_success(publish);
  const v1::Job job = SubmitAndStart(request);
  ReportStarted(job.id(), 1);
  ReportCheckpoint(job.id(), 1, 20);
  ReportEnded(job.id(), 1, worker::v1::JobEnded::SUCCEEDED);
  EXPECT_TRUE(Becomes(job.id(), v1::SUCCEEDED));
  return *GetJob(control(), job.id());
}

uint64_t ControlTest::AnswerLoad(const std::string& device,
                                 const absl::Status& status) {
  FakeWorkers::Pending send;
  EXPECT_TRUE(workers->NextSend(send));
  EXPECT_EQ(send.device, device);
  EXPECT_TRUE(send.message.has_load_version());
  const uint64_t id = send.message.load_version().version_id();
  if (!status.ok()) {
    send.callback(status);
    return id;
  }
  worker::v1::FromWorker reply;
  reply.mutable_version()->set_version_id(id);
  reply.mutable_version()->add_inputs()->set_name("input");
  reply.mutable_version()->add_outputs()->set_name("output");
  send.callback(reply);
  return id;
}

bool ControlTest::Becomes(uint64_t job, v1::JobState state) {
  return Eventually([&] {
    auto row = GetJob(control(), job);
    return row.ok() && row->state() == state;
  });
}

bool ControlTest::VersionBecomes(const std::string& model, uint64_t number,
                                 v1::VersionState state) {
  return Eventually([&] {
    auto row = store->GetVersion(model, number);
    return row.ok() && row->state() == state;
  });
}

}  // namespace gpupool::server
