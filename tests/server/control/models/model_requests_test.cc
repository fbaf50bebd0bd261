#include "server/control/models/model_requests.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "server/control/calls/context.h"
#include "server/control/devices/device_requests.h"
#include "server/control/records/rows.h"
#include "server/control/records/shared_versions.h"
#include "server/store/store.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ModelRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
  }
  absl::StatusOr<v1::ModelVersion> Promote(v1::PromoteCheckpointRequest request,
                                           uint64_t job) {
    request.set_job_id(job);
    Answer<v1::ModelVersion> answer;
    PromoteCheckpoint(control(), request, answer.callback());
    return answer.Wait();
  }
  Answer<v1::ModelVersion> Load(uint64_t version, bool wait = false) {
    v1::LoadVersionRequest request;
    request.set_model("digits");
    request.set_version(version);
    request.set_wait(wait);
    Answer<v1::ModelVersion> answer;
    LoadVersion(control(), request, answer.callback());
    return answer;
  }
  Answer<v1::ModelVersion> Unload(uint64_t version, bool wait = false) {
    v1::UnloadVersionRequest request;
    request.set_model("digits");
    request.set_version(version);
    request.set_wait(wait);
    Answer<v1::ModelVersion> answer;
    UnloadVersion(control(), request, answer.callback());
    return answer;
  }
  absl::Status Delete(uint64_t version) {
    v1::DeleteVersionRequest request;
    request.set_model("digits");
    request.set_version(version);
    Answer<v1::DeleteVersionResponse> answer;
    DeleteVersion(control(), request, answer.callback());
    return answer.Wait().status();
  }
  void AnswerUnload() {
    FakeWorkers::Pending send;
    ASSERT_TRUE(workers->NextSend(send));
    ASSERT_TRUE(send.message.has_unload_version());
    send.callback(worker::v1::FromWorker());
  }
};

TEST_F(ModelRequestsTest, SuccessPublishesAndServesTheLastCheckpoint) {
  const v1::Job job = FinishedJob("r1", true);
  const uint64_t id = AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  EXPECT_EQ(sink->served().at(id), "cpu:0");
  const v1::ModelVersion version = *store->GetVersion("digits", 0);
  EXPECT_EQ(version.job_id(), job.id());
  EXPECT_EQ(version.step(), 20u);
  EXPECT_EQ(version.serving().max_batch_size(), 32u);
  EXPECT_EQ(store->GetModel("digits")->versions_size(), 1);
}

class WantedDeviceTest : public ModelRequestsTest {
 protected:
  void SetUp() override {
    ModelRequestsTest::SetUp();
    options.devices = {{"cpu:0", kLimit, 1}, {"cpu:1", kLimit, 1}};
    Restart();
    Hello("cpu:0");
    Hello("cpu:1");
    FinishedJob("r1", true);
    AnswerLoad("cpu:0");
    ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  }
  absl::StatusOr<v1::ModelVersion> LoadOn(const std::string& device) {
    v1::LoadVersionRequest request;
    request.set_model("digits");
    request.set_device(device);
    Answer<v1::ModelVersion> answer;
    LoadVersion(control(), request, answer.callback());
    return answer.Wait();
  }
};

TEST_F(WantedDeviceTest, AVersionIsLoadedWhereItIsWantedAndThatIsStored) {
  EXPECT_EQ(std::string(LoadOn("cpu:1").status().message()),
            "digits version 1 is loaded on cpu:0 and does not move; unload it "
            "with `gpupool models unload digits/1`, then load it on cpu:1");
  EXPECT_TRUE(LoadOn("cpu").ok()) << "it is on one";
  Answer<v1::ModelVersion> unload = Unload(1, true);
  AnswerUnload();
  ASSERT_TRUE(unload.Wait().ok());
  ASSERT_TRUE(LoadOn("cpu:1").ok());
  AnswerLoad("cpu:1");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  const v1::ModelVersion version = *store->GetVersion("digits", 0);
  EXPECT_EQ(version.device(), "cpu:1");
  EXPECT_EQ(version.wanted_device(), "cpu:1");
}

TEST_F(WantedDeviceTest, ADeviceThatIsNotThereIsRefused) {
  const absl::Status refused = LoadOn("cpu:7").status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it has cpu:0, cpu:1"));
}

TEST_F(ModelRequestsTest, ANewVersionReplacesTheOldOneWhenItIsReady) {
  FinishedJob("r1", true);
  AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  FinishedJob("r2", true);
  AnswerLoad("cpu:0");
  AnswerUnload();
  EXPECT_TRUE(VersionBecomes("digits", 2, v1::READY));
  EXPECT_TRUE(VersionBecomes("digits", 1, v1::UNLOADED));
}

TEST_F(ModelRequestsTest, PromotesTheNewestCheckpointUnderTheJobsName) {
  const v1::Job job = FinishedJob("r1", false);
  const auto version = Promote({}, job.id());
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->model(), "digits");
  EXPECT_EQ(version->version(), 1u);
  EXPECT_EQ(version->state(), v1::LOADING);
  EXPECT_EQ(Promote({}, job.id())->version(), 2u);
}

TEST_F(ModelRequestsTest, PromotesTheBestCheckpointWhereBestOnesAreKept) {
  v1::SubmitJobRequest submission = Request("r1");
  submission.mutable_spec()->mutable_training()->set_keep_best_checkpoints(2);
  const v1::Job job = SubmitAndStart(submission);
  ReportStarted(job.id(), 1);
  for (const auto& [step, loss] : std::vector<std::pair<uint64_t, double>>{
           {10, 0.5}, {20, 0.25}, {30, 1}}) {
    worker::v1::Report report;
    report.set_job_id(job.id());
    report.set_attempt(1);
    v1::Checkpoint& checkpoint = *report.mutable_checkpoint();
    checkpoint.set_step(step);
    checkpoint.set_manifest_sha256(std::string(64, 'a'));
    checkpoint.set_held_out_loss(loss);
    Report("cpu:0", report);
  }
  ReportEnded(job.id(), 1, worker::v1::JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(job.id(), v1::SUCCEEDED));
  const auto best = Promote({}, job.id());
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->step(), 20u);
  EXPECT_TRUE(best->best_checkpoint());
  EXPECT_EQ(best->held_out_loss(), 0.25);
  v1::PromoteCheckpointRequest request;
  request.set_step(30);
  const auto newest = Promote(request, job.id());
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->step(), 30u);
  EXPECT_FALSE(newest->best_checkpoint());
  EXPECT_EQ(newest->held_out_loss(), 1);
}

TEST_F(ModelRequestsTest, PromotionNamesWhatIsMissing) {
  EXPECT_TRUE(absl::IsNotFound(Promote({}, 99).status()));
  const v1::Job job = FinishedJob("r1", false);
  v1::PromoteCheckpointRequest request;
  request.set_step(3);
  EXPECT_TRUE(absl::IsNotFound(Promote(request, job.id()).status()));
}

TEST_F(ModelRequestsTest, AnotherBatchSizeIsPlannedAgain) {
  const v1::Job job = FinishedJob("r1", false);
  uint32_t planned_for = 0;
  workers->meta = [&](const worker::v1::ToWorker& message) {
    planned_for =
        message.plan_training().spec().publish().serving().max_batch_size();
    worker::v1::FromWorker reply;
    reply.mutable_plan()->mutable_plan()->mutable_inference()->set_peak(77);
    return absl::StatusOr<worker::v1::FromWorker>(reply);
  };
  v1::PromoteCheckpointRequest request;
  request.mutable_serving()->set_max_batch_size(64);
  const auto version = Promote(request, job.id());
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(planned_for, 64u);
  EXPECT_EQ(version->plan().inference().peak(), 77u);
}

TEST_F(ModelRequestsTest, WaitingAnswersWhenTheVersionIsReady) {
  const v1::Job job = FinishedJob("r1", false);
  v1::PromoteCheckpointRequest request;
  request.set_job_id(job.id());
  request.set_wait(true);
  Answer<v1::ModelVersion> answer;
  PromoteCheckpoint(control(), request, answer.callback());
  EXPECT_FALSE(answer.CameTooEarly());
  AnswerLoad("cpu:0");
  EXPECT_EQ(answer.Wait()->state(), v1::READY);
  // Loading a version that is ready does nothing and answers at once.
  EXPECT_EQ(Load(1, true).Wait()->state(), v1::READY);
}

TEST_F(ModelRequestsTest, WaitingGoesOnWhileThereIsNoRoom) {
  const v1::Job job = FinishedJob("r1", false);
  planned_bytes = 990;
  v1::SubmitJobRequest big = Request("big");
  big.mutable_spec()->mutable_training()->set_batch_size(512);
  const v1::Job blocker = SubmitAndStart(big);
  v1::PromoteCheckpointRequest request;
  request.set_job_id(job.id());
  request.set_wait(true);
  Answer<v1::ModelVersion> answer;
  PromoteCheckpoint(control(), request, answer.callback());
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOADING));
  EXPECT_THAT(store->GetVersion("digits", 1)->error(),
              HasSubstr("waits for 50 B"));
  EXPECT_FALSE(answer.CameTooEarly());
  ReportStarted(blocker.id(), 1);
  ReportEnded(blocker.id(), 1, worker::v1::JobEnded::SUCCEEDED);
  AnswerLoad("cpu:0");
  EXPECT_EQ(answer.Wait()->state(), v1::READY);
}

TEST_F(ModelRequestsTest, AFailedLoadKeepsTheWorkersWords) {
  const v1::Job job = FinishedJob("r1", false);
  ASSERT_TRUE(Promote({}, job.id()).ok());
  AnswerLoad("cpu:0", absl::DataLossError("weights differ from their digest"));
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOAD_FAILED));
  EXPECT_EQ(store->GetVersion("digits", 1)->error(),
            "weights differ from their digest");
  auto again = Load(1, true);
  AnswerLoad("cpu:0");
  EXPECT_EQ(again.Wait()->state(), v1::READY);
}

TEST_F(ModelRequestsTest, UnloadDrainsAndGivesTheBytesBack) {
  FinishedJob("r1", true);
  AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  auto answer = Unload(0, true);
  AnswerUnload();
  EXPECT_EQ(answer.Wait()->state(), v1::UNLOADED);
  EXPECT_TRUE(sink->served().empty());
  EXPECT_EQ(ListDevices(control())[0].committed_bytes(), 0u);
  EXPECT_EQ(Unload(1).Wait()->state(), v1::UNLOADED) << "a no-op";
}

TEST_F(ModelRequestsTest, OnlyAnUnloadedVersionIsDeletedAndItsNumberNotReused) {
  const v1::Job job = FinishedJob("r1", true);
  AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  EXPECT_TRUE(absl::IsFailedPrecondition(Delete(1)));
  auto unloaded = Unload(1, true);
  AnswerUnload();
  ASSERT_TRUE(unloaded.Wait().ok());
  EXPECT_TRUE(Delete(1).ok());
  EXPECT_TRUE(absl::IsNotFound(Delete(1)));
  EXPECT_TRUE(absl::IsNotFound(store->GetModel("digits").status()));
  EXPECT_EQ(Promote({}, job.id())->version(), 2u);
}

TEST_F(ModelRequestsTest, DeletingVersionZeroDeletesNothing) {
  const v1::Job job = FinishedJob("r1", false);
  ASSERT_TRUE(Promote({}, job.id()).ok());
  EXPECT_TRUE(absl::IsNotFound(Delete(0)));
}

TEST_F(ModelRequestsTest, UnknownModelsAndVersionsAreNamed) {
  EXPECT_THAT(std::string(Load(1).Wait().status().message()),
              HasSubstr("model \"digits\" does not exist"));
  const v1::Job job = FinishedJob("r1", false);
  ASSERT_TRUE(Promote({}, job.id()).ok());
  EXPECT_THAT(std::string(Load(7).Wait().status().message()),
              HasSubstr("no version 7; the newest is 1"));
}

TEST_F(ModelRequestsTest, AVersionComesBackAfterItsWorkerWasLost) {
  FinishedJob("r1", true);
  const uint64_t id = AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  loop->OnWorkerLost("cpu:0", absl::UnavailableError("signal 9"), {});
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOADING));
  EXPECT_TRUE(sink->served().empty());
  Hello("cpu:0");
  EXPECT_EQ(AnswerLoad("cpu:0"), id);
  EXPECT_TRUE(VersionBecomes("digits", 1, v1::READY));
}

// Otherwise requests wait for a worker that does not come, and the next load
// goes on with old sequences.
TEST_F(ModelRequestsTest, ServingForgetsAVersionThatIsUnloadedWithoutAWorker) {
  FinishedJob("r1", true);
  const uint64_t id = AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  loop->OnWorkerLost("cpu:0", absl::UnavailableError("signal 9"), {});
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOADING));
  EXPECT_TRUE(WaitUntil([&] { return sink->lost().contains(id); }));
  ASSERT_TRUE(Unload(1).Wait().ok());
  EXPECT_TRUE(WaitUntil([&] { return sink->lost().empty(); }));
}

TEST_F(ModelRequestsTest, AVersionThatEndsWorkersIsGivenUpForGood) {
  FinishedJob("r1", true);
  const uint64_t id = AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  const auto end_worker = [&] {
    loop->OnWorkerLost("cpu:0", absl::UnavailableError("signal 6"),
                       {.version_id = id});
  };
  end_worker();
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOADING));
  Restart();  // the first end is not forgotten
  EXPECT_EQ(*store->GetCounter(WorkerEndsCounter(id)), 1u);
  Hello("cpu:0");
  EXPECT_EQ(AnswerLoad("cpu:0"), id);
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  end_worker();
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOAD_FAILED));
  Restart();
  Hello("cpu:0");
  const auto version = store->GetVersion("digits", 1);
  EXPECT_EQ(version->state(), v1::LOAD_FAILED);
  EXPECT_THAT(version->error(),
              AllOf(HasSubstr("ended 2 times"), HasSubstr("signal 6")));

  auto load = Load(1);
  EXPECT_EQ(AnswerLoad("cpu:0"), id);
  EXPECT_TRUE(VersionBecomes("digits", 1, v1::READY));
  EXPECT_EQ(*store->GetCounter(WorkerEndsCounter(id)), 0u);
  EXPECT_TRUE(load.Wait().ok());
}

TEST_F(ModelRequestsTest, AnUploadThatEndsItsRehearsalIsRefused) {
  workers->rehearsal = [](const worker::v1::ToWorker&) {
    return absl::UnavailableError("it ended during the request");
  };
  v1::UploadModelRequest::Header header;
  header.set_name("bad");
  Answer<v1::ModelVersion> upload;
  ImportModel(control(), header, "", upload.callback());
  loop->OnWorkerLost(kRehearsalDevice, absl::UnavailableError("signal 6"),
                     {.version_id = 1});
  const auto version = upload.Wait();
  EXPECT_EQ(version.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(version.status().message()),
      AllOf(HasSubstr("model \"bad\" is refused"), HasSubstr("signal 6")));
  EXPECT_FALSE(store->GetModel("bad").ok());
}

TEST_F(ModelRequestsTest, APromotionThatEndsItsRehearsalIsRefused) {
  const v1::Job job = FinishedJob("r1", false);
  workers->rehearsal = [](const worker::v1::ToWorker&) {
    return absl::UnavailableError("it ended during the request");
  };
  v1::PromoteCheckpointRequest request;
  request.set_job_id(job.id());
  Answer<v1::ModelVersion> promotion;
  PromoteCheckpoint(control(), request, promotion.callback());
  loop->OnWorkerLost(kRehearsalDevice, absl::UnavailableError("signal 6"),
                     {.version_id = 1});
  const auto version = promotion.Wait();
  EXPECT_EQ(version.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(version.status().message()),
              AllOf(HasSubstr("is refused"), HasSubstr("signal 6")));
  EXPECT_FALSE(store->GetModel("digits").ok());
}

TEST_F(ModelRequestsTest, APublishedVersionIsRehearsedAlsoAfterARestart) {
  std::atomic<int> asked{0};
  rehearsal = [&asked](const worker::v1::ToWorker&) {
    ++asked;
    return absl::UnavailableError("it ended during the request");
  };
  workers->rehearsal = rehearsal;
  FinishedJob("r1", true);
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOADING));
  ASSERT_TRUE(Eventually([&] { return asked > 0; }));
  asked = 0;
  Restart();
  Hello("cpu:0");
  ASSERT_TRUE(Eventually([&] { return asked > 0; }));
  loop->OnWorkerLost(kRehearsalDevice, absl::UnavailableError("signal 6"),
                     {.version_id = 1});
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOAD_FAILED));
  EXPECT_THAT(store->GetVersion("digits", 1)->error(),
              AllOf(HasSubstr("signal 6"),
                    HasSubstr("`gpupool models load digits/1`")));
}

TEST_F(ModelRequestsTest, AnUploadedModelIsImportedAndLoaded) {
  worker::v1::ImportModel asked;
  const auto plan = workers->meta;
  workers->meta = [&](const worker::v1::ToWorker& message)
      -> absl::StatusOr<worker::v1::FromWorker> {
    if (!message.has_import_model()) return plan(message);
    asked = message.import_model();
    worker::v1::FromWorker reply;
    reply.mutable_import_model()->set_manifest_sha256("m");
    reply.mutable_import_model()->mutable_plan()->mutable_inference()->set_peak(
        50);
    return reply;
  };
  v1::UploadModelRequest::Header header;
  header.set_name("net");
  header.set_sha256("w");
  header.set_wait(true);
  Answer<v1::ModelVersion> answer;
  ImportModel(control(), header, "", answer.callback());
  EXPECT_EQ(asked.weights_sha256(), "w");
  EXPECT_EQ(asked.max_batch_size(), 32u);
  EXPECT_FALSE(answer.CameTooEarly()) << "it waits for the load";
  AnswerLoad("cpu:0");
  const auto version = answer.Wait();
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->state(), v1::READY);
  EXPECT_EQ(version->manifest_sha256(), "m");
  EXPECT_EQ(version->job_id(), 0u);
}

TEST_F(ModelRequestsTest, AModelThatCannotBeImportedLeavesNothing) {
  workers->meta = [](const worker::v1::ToWorker&) {
    return absl::UnimplementedError("Swirl 'a', Twirl 'b'");
  };
  v1::UploadModelRequest::Header header;
  header.set_name("net");
  Answer<v1::ModelVersion> answer;
  ImportModel(control(), header, "", answer.callback());
  EXPECT_THAT(answer.Wait().status().message(), HasSubstr("Swirl"));
  EXPECT_FALSE(store->GetModel("net").ok());
}

TEST_F(ModelRequestsTest, AnExportNamesTheVersionThatAWorkerWrote) {
  FinishedJob("r1", true);
  AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  workers->meta = [](const worker::v1::ToWorker& message)
      -> absl::StatusOr<worker::v1::FromWorker> {
    EXPECT_FALSE(message.export_model().manifest_sha256().empty());
    worker::v1::FromWorker reply;
    reply.mutable_export_model()->set_sha256("file");
    reply.mutable_export_model()->set_bytes(9);
    return reply;
  };
  v1::ExportModelRequest request;
  request.set_model("digits");
  request.set_format(v1::ExportModelRequest::ONNX);
  Answer<v1::ExportModelResponse::Header> answer;
  ExportModel(control(), request, answer.callback());
  const auto header = answer.Wait();
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->version(), 1u) << "the newest";
  EXPECT_EQ(header->sha256(), "file");
  EXPECT_EQ(header->total_bytes(), 9u);
  request.set_version(2);
  Answer<v1::ExportModelResponse::Header> missing;
  ExportModel(control(), request, missing.callback());
  EXPECT_TRUE(absl::IsNotFound(missing.Wait().status()));
}

// A server whose callers have tokens.
class TenantModelsTest : public ModelRequestsTest {
 protected:
  void SetUp() override {
    options.keeps_tenants_apart = true;
    ModelRequestsTest::SetUp();
  }

  // Uploads a version of "digits" for the tenant.
  absl::StatusOr<v1::ModelVersion> Upload(const std::string& tenant) {
    workers->meta = [plan = workers->meta](const worker::v1::ToWorker& message)
        -> absl::StatusOr<worker::v1::FromWorker> {
      if (!message.has_import_model()) return plan(message);
      worker::v1::FromWorker reply;
      reply.mutable_import_model()->set_manifest_sha256("m");
      reply.mutable_import_model()
          ->mutable_plan()
          ->mutable_inference()
          ->set_peak(50);
      return reply;
    };
    v1::UploadModelRequest::Header header;
    header.set_name("digits");
    Answer<v1::ModelVersion> answer;
    ImportModel(control(), header, tenant, answer.callback());
    return answer.Wait();
  }

  // Returns a job of the tenant "default" that publishes "digits" and runs.
  uint64_t RunningJob() {
    v1::SubmitJobRequest request = Request("r1");
    request.mutable_spec()->mutable_publish()->set_on_success(true);
    const uint64_t job = SubmitAndStart(request).id();
    ReportStarted(job, 1);
    ReportCheckpoint(job, 1, 20);
    return job;
  }

  // Returns whether the job's log says that nothing was published.
  bool SaysNotPublished(uint64_t job) {
    const auto events = store->ReadEvents(job, 0, 100);
    return std::any_of(
        events->begin(), events->end(), [](const v1::JobEvent& event) {
          return absl::StrContains(event.log().text(),
                                   "not published: the model name \"digits\" "
                                   "is taken");
        });
  }
};

TEST_F(TenantModelsTest, TheModelOfAJobBelongsToTheJobsTenant) {
  FinishedJob("r1", true);
  EXPECT_EQ(store->GetVersion("digits", 1)->tenant(), "default");
  EXPECT_EQ(store->GetModel("digits")->tenant(), "default");
}

TEST_F(ModelRequestsTest, WithoutTokensAModelBelongsToNobody) {
  FinishedJob("r1", true);
  EXPECT_EQ(store->GetVersion("digits", 1)->tenant(), "");
}

TEST_F(TenantModelsTest, AJobPublishesNothingIntoTheModelOfAnotherTenant) {
  const uint64_t job = RunningJob();
  ASSERT_TRUE(Upload("b").ok());
  ReportEnded(job, 1, worker::v1::JobEnded::SUCCEEDED);
  EXPECT_TRUE(Becomes(job, v1::SUCCEEDED));
  EXPECT_EQ(store->GetModel("digits")->versions_size(), 1);
  EXPECT_TRUE(SaysNotPublished(job));
}

TEST_F(TenantModelsTest, AModelThatIsEverybodysSinceThenGetsNoResultEither) {
  const uint64_t job = RunningJob();
  ASSERT_TRUE(Upload("").ok());
  ReportEnded(job, 1, worker::v1::JobEnded::SUCCEEDED);
  EXPECT_TRUE(Becomes(job, v1::SUCCEEDED));
  EXPECT_EQ(store->GetModel("digits")->versions_size(), 1);
  EXPECT_TRUE(SaysNotPublished(job));
}

TEST_F(TenantModelsTest, AModelThatWasEverybodysStaysSo) {
  ASSERT_TRUE(Upload("").ok());
  AnswerLoad("cpu:0");
  FinishedJob("r1", true);
  EXPECT_EQ(store->GetModel("digits")->versions_size(), 2);
  EXPECT_EQ(store->GetVersion("digits", 2)->tenant(), "");
}

TEST_F(TenantModelsTest, AnUploadToTheModelOfAnotherTenantIsRefused) {
  ASSERT_TRUE(Upload("a").ok());
  const auto refused = Upload("b");
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status())) << refused.status();
  EXPECT_EQ(Upload("")->tenant(), "a") << "an operator's";
}

TEST_F(TenantModelsTest, SharingIsOnDiskAndHoldsForLaterVersions) {
  v1::ShareModelRequest request;
  request.set_name("digits");
  const auto share = [&] {
    Answer<v1::Model> answer;
    ShareModel(control(), request, answer.callback());
    return answer.Wait();
  };
  EXPECT_TRUE(absl::IsNotFound(share().status()));
  const uint64_t id = Upload("a")->id();
  EXPECT_FALSE(control().shared_versions->Has(id));
  EXPECT_TRUE(share()->shared());
  EXPECT_TRUE(control().shared_versions->Has(id));
  EXPECT_TRUE(Upload("a")->shared());
  Restart();
  EXPECT_TRUE(control().shared_versions->Has(id));
  request.set_off(true);
  EXPECT_FALSE(share()->shared());
  EXPECT_FALSE(control().shared_versions->Has(id));
  EXPECT_FALSE(store->GetVersion("digits", 2)->shared());
}

}  // namespace
}  // namespace gpupool::server
