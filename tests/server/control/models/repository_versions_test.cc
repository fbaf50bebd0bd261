#include "server/control/models/repository_versions.h"

#include <gmock/gmock.h>

#include <utility>

#include "server/control/models/model_requests.h"
#include "server/control/records/rows.h"
#include "server/store/store.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RepositoryVersionsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    Hello("cpu:0");
    const auto plan = workers->meta;
    workers->meta = [plan](const worker::v1::ToWorker& message)
        -> absl::StatusOr<worker::v1::FromWorker> {
      if (!message.has_import_model()) return plan(message);
      worker::v1::FromWorker reply;
      worker::v1::ImportReply& import = *reply.mutable_import_model();
      import.set_manifest_sha256(message.import_model().weights_sha256());
      import.mutable_plan()->mutable_inference()->set_peak(50);
      return reply;
    };
  }

  RepositoryImport Import(uint64_t number, const std::string& digest) {
    RepositoryImport import{.number = number};
    import.model.set_name("net");
    import.model.set_sha256(digest);
    import.check = [](const v1::ModelVersion&) { return absl::OkStatus();
  };
  return import;
} Answer<v1::ModelVersion> Send(const RepositoryImport& import) {
  Answer<v1::ModelVersion> answer;
  ImportRepositoryVersion(control(), import, answer.callback());
  return answer;
}
// Imports the version and answers its load.
void Serve(uint64_t number, const std::string& digest) {
  ASSERT_TRUE(Send(Import(number, digest)).Wait().ok());
  AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("net", number, v1::READY));
}
void AnswerUnload() {
  FakeWorkers::Pending send;
  ASSERT_TRUE(workers->NextSend(send));
  ASSERT_TRUE(send.message.has_unload_version());
  send.callback(worker::v1::FromWorker());
}
};  // namespace

TEST_F(RepositoryVersionsTest, AVersionHasTheNumberOfItsFolder) {
  const auto version = Send(Import(7, "a")).Wait();
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->version(), 7u);
  EXPECT_TRUE(version->from_repository());
  AnswerLoad("cpu:0");
  EXPECT_TRUE(VersionBecomes("net", 7, v1::READY));
}

TEST_F(RepositoryVersionsTest, VersionsStaySideBySide) {
  Serve(3, "a");
  Serve(1, "b");
  Serve(9, "c");
  for (const uint64_t number : {1, 3, 9}) {
    EXPECT_EQ(store->GetVersion("net", number)->state(), v1::READY);
  }
}

TEST_F(RepositoryVersionsTest, UploadsGetHigherNumbers) {
  Serve(7, "a");
  v1::UploadModelRequest::Header header;
  header.set_name("net");
  Answer<v1::ModelVersion> answer;
  ImportModel(control(), header, "", answer.callback());
  EXPECT_EQ(answer.Wait()->version(), 8u);
}

TEST_F(RepositoryVersionsTest, AChangedFileTakesTheNumber) {
  Serve(1, "a");
  const uint64_t before = store->GetVersion("net", 1)->id();
  auto answer = Send(Import(1, "b"));
  AnswerUnload();
  const auto version = answer.Wait();
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->version(), 1u);
  EXPECT_NE(version->id(), before);
  EXPECT_EQ(version->manifest_sha256(), "b");
  AnswerLoad("cpu:0");
  EXPECT_TRUE(VersionBecomes("net", 1, v1::READY));
  EXPECT_EQ(store->GetModel("net")->versions_size(), 1);
}

TEST_F(RepositoryVersionsTest, ARefusedFileLeavesTheVersionServed) {
  Serve(1, "a");
  RepositoryImport import = Import(1, "b");
  import.check = [](const v1::ModelVersion& version) {
    EXPECT_EQ(version.plan().inference().peak(), 50u);
  return absl::InvalidArgumentError("its dims differ");
};
EXPECT_THAT(std::string(Send(import).Wait().status().message()),
            HasSubstr("its dims differ"));
EXPECT_EQ(store->GetVersion("net", 1)->state(), v1::READY);
EXPECT_EQ(store->GetVersion("net", 1)->manifest_sha256(), "a");
}  // namespace gpupool::server

class TenantRepositoryTest : public RepositoryVersionsTest {
 protected:
  void SetUp() override {
    options.keeps_tenants_apart = true;
    RepositoryVersionsTest::SetUp();
  }
};

TEST_F(TenantRepositoryTest, TheModelOfATenantIsKept) {
  v1::UploadModelRequest::Header header;
  header.set_name("net");
  Answer<v1::ModelVersion> upload;
  ImportModel(control(), header, "a", upload.callback());
  ASSERT_TRUE(upload.Wait().ok());
  const auto refused = Send(Import(7, "b")).Wait();
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("is taken by an uploaded model"));
}

TEST_F(RepositoryVersionsTest, AVersionThatCameAnotherWayIsKept) {
  v1::UploadModelRequest::Header header;
  header.set_name("net");
  Answer<v1::ModelVersion> upload;
  ImportModel(control(), header, "", upload.callback());
  ASSERT_TRUE(upload.Wait().ok());
  const auto refused = Send(Import(1, "b")).Wait();
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("version 1"), HasSubstr("rename the folder")));
}

TEST_F(RepositoryVersionsTest, ADeviceThatThePoolDoesNotHaveIsRefused) {
  RepositoryImport import = Import(1, "a");
  import.device = "cuda:3";
  const auto refused = Send(import).Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("cuda:3"));
  EXPECT_FALSE(store->GetModel("net").ok());
}

TEST_F(RepositoryVersionsTest, TheWantedDeviceIsStored) {
  RepositoryImport import = Import(1, "a");
  import.device = "cpu";
  ASSERT_TRUE(Send(import).Wait().ok());
  EXPECT_EQ(store->GetVersion("net", 1)->wanted_device(), "cpu");
}

}  // namespace
}  // namespace gpupool::server
