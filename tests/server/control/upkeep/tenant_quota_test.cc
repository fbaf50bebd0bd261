#include "server/control/upkeep/tenant_quota.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/sha256.h"
#include "server/control/models/dataset_requests.h"
#include "server/control/models/model_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TenantQuotaTest : public ControlTest {
 protected:
  void SetUp() override {
    options.keeps_tenants_apart = true;
    options.scheduling.tenants["a"].most_stored_bytes = 10;
    options.scheduling.tenants["a"].most_jobs = 7;
    options.scheduling.tenants["a"].most_device_bytes = 500;
    options.scheduling.tenants["default"].most_models = 0;
    ControlTest::SetUp();
  }

  // Registers a dataset with these bytes.
  absl::Status Add(const std::string& tenant, const std::string& name,
                   const std::string& bytes) {
    v1::Dataset dataset;
    dataset.set_name(name);
    dataset.set_tenant(tenant);
    v1::DatasetFile& file = *dataset.add_files();
    file.set_role(v1::DatasetFile::TABLE);
    file.set_file_name("table.csv");
    file.set_sha256(*blobs->Put(bytes));
    file.set_total_bytes(bytes.size());
    Answer<v1::Dataset> answer;
    RegisterDataset(control(), dataset, answer.callback());
    return answer.Wait().status();
  }

  // Keeps an upload of the announced bytes, of which one has arrived.
  void Keep(const std::string& key, const std::string& tenant,
            uint64_t announced) {
    auto writer = blobs->Begin({.key = key,
                                .sha256 = engine::Sha256Hex("?"),
                                .total_bytes = announced,
                                .tenant = tenant});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append("x").ok());
  }

  v1::GetQuotaResponse Quota(const v1::GetQuotaRequest& request = {}) {
    Answer<v1::GetQuotaResponse> answer;
    GetQuota(control(), request, answer.callback());
    auto quota = answer.Wait();
    EXPECT_TRUE(quota.ok()) << quota.status();
    return quota.ok() ? *std::move(quota) : v1::GetQuotaResponse();
  }

  static std::vector<std::string> NamesOf(const v1::GetQuotaResponse& quota) {
    std::vector<std::string> names;
    for (const auto& row : quota.tenants()) names.push_back(row.tenant());
    return names;
  }

  const std::string key_ = std::string(64, 'a');
};

TEST_F(TenantQuotaTest, DatasetsAndUploadsOfATenantCountBeforeBytesAreTaken) {
  ASSERT_TRUE(Add("a.x", "rows", "1,2\n").ok());
  EXPECT_TRUE(CheckUploadRoom(control(), "a", 6, {}).ok());
  Keep(key_, "a.y", 4);
  const absl::Status refused = CheckUploadRoom(control(), "a", 3, {});
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("tenant \"a\" stores 8 bytes of data sets, models and "
                        "uploads, may store 10, and asks for 3 more"));
  EXPECT_TRUE(CheckUploadRoom(control(), "a", 3, {key_}).ok())
      << "the upload that goes on";
  EXPECT_TRUE(CheckUploadRoom(control(), "b", 1000, {}).ok());
  EXPECT_TRUE(CheckUploadRoom(control(), "", 1000, {}).ok());
}

TEST_F(TenantQuotaTest, ADatasetThatFindsNoRoomAtItsEndIsRefused) {
  ASSERT_TRUE(Add("a", "one", "1,2,3\n").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Add("a", "two", "4,5,6\n")));
  EXPECT_TRUE(Add("a", "one", "1,2,3\n").ok()) << "repeated";
  EXPECT_TRUE(Add("b", "two", "4,5,6\n").ok());
  Answer<v1::DeleteDatasetResponse> deleted;
  DeleteDataset(control(), "one", deleted.callback());
  ASSERT_TRUE(deleted.Wait().ok());
  EXPECT_TRUE(Add("a", "three", "7,8,9\n").ok());
}

TEST_F(TenantQuotaTest, OfSeveralUploadsAtATimeThoseThatFitAreTaken) {
  std::vector<Answer<v1::Dataset>> answers(5);
  for (size_t i = 0; i < answers.size(); ++i) {
    v1::Dataset dataset;
    dataset.set_name("rows" + std::to_string(i));
    dataset.set_tenant("a");
    dataset.add_files()->set_sha256(*blobs->Put(dataset.name()));
    dataset.mutable_files(0)->set_total_bytes(5);
    RegisterDataset(control(), dataset, answers[i].callback());
  }
  int taken = 0;
  for (auto& answer : answers) taken += answer.Wait().ok();
  EXPECT_EQ(taken, 2);
}

TEST_F(TenantQuotaTest, ARowHasWhatATenantUsesAndMay) {
  AddDataset("digits");
  Hello("cpu:0");
  ASSERT_TRUE(Add("a", "rows", "1,2\n").ok());
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->set_tenant("a.x");
  const uint64_t job = SubmitAndStart(request).id();
  ReportStarted(job, 1);
  v1::GetQuotaRequest wanted;
  wanted.set_tenant("a");
  const v1::GetQuotaResponse quota = Quota(wanted);
  ASSERT_THAT(NamesOf(quota), ElementsAre("a"));
  const v1::TenantQuota& row = quota.tenants(0);
  EXPECT_EQ(row.jobs().used(), 1u);
  EXPECT_EQ(row.jobs().limit(), 7u);
  EXPECT_EQ(row.devices().used(), 1u);
  EXPECT_FALSE(row.devices().has_limit());
  EXPECT_EQ(row.device_bytes().used(), 100u);
  EXPECT_EQ(row.device_bytes().limit(), 500u);
  EXPECT_EQ(row.models().used(), 0u);
  EXPECT_EQ(row.stored_bytes().used(), 4u);
  EXPECT_EQ(row.stored_bytes().limit(), 10u);
}

TEST_F(TenantQuotaTest, RowsAreOfAllWhoHaveOrMayHaveSomethingInPages) {
  ASSERT_TRUE(Add("z.y", "rows", "1,2\n").ok());
  EXPECT_THAT(NamesOf(Quota()), ElementsAre("a", "default", "z", "z.y"));
  v1::GetQuotaRequest request;
  request.set_page_size(3);
  const v1::GetQuotaResponse first = Quota(request);
  EXPECT_THAT(NamesOf(first), ElementsAre("a", "default", "z"));
  request.set_page_token(first.next_page_token());
  const v1::GetQuotaResponse last = Quota(request);
  EXPECT_THAT(NamesOf(last), ElementsAre("z.y"));
  EXPECT_EQ(last.next_page_token(), "");
}

TEST_F(TenantQuotaTest, AResultIsPublishedButNotLoadedBeyondTheLimit) {
  AddDataset("digits");
  Hello("cpu:0");
  const v1::Job job = FinishedJob("r1", true);
  const auto version = store->GetVersion("digits", 1);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->state(), v1::UNLOADED);
  bool told = false;
  const auto events = store->ReadEvents(job.id(), 0, 100);
  for (const v1::JobEvent& event : *events) {
    told |= event.log().text().find(
                "not loaded: tenant \"default\" has 0 versions of models "
                "loaded, may have 0") != std::string::npos;
  }
  EXPECT_TRUE(told);
  v1::LoadVersionRequest load;
  load.set_model("digits");
  Answer<v1::ModelVersion> loaded;
  LoadVersion(control(), load, loaded.callback());
  EXPECT_TRUE(absl::IsResourceExhausted(loaded.Wait().status()));
}

}  // namespace
}  // namespace gpupool::server
