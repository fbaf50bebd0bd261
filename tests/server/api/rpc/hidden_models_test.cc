#include "server/api/rpc/hidden_models.h"

#include <gmock/gmock.h>

#include "server/control/calls/context.h"
#include "tests/server/api/services/token_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

class HiddenModelsTest : public TokenFixture {
 protected:
  void SetUp() override {
    TokenFixture::SetUp();
    WriteBatch batch;
    for (const char* tenant : {"a", "b", ""}) {
      v1::ModelVersion& version = batch.upsert_versions.emplace_back();
      version.set_id(++ids_);
      version.set_model(std::string("net-") + tenant);
      version.set_version(1);
      version.set_tenant(tenant);
    }
    // The test is the writer of the store when the control thread has ended.
    control_->Stop();
    ASSERT_TRUE(store_->Commit(batch).ok());
    for (const char* model : {"net-a", "net-b", "net-"}) {
      device_.add_versions(std::string(model) + "/1");
      device_.mutable_memory()->add_owners()->set_owner(std::string("model ") +
                                                        model + "/1 / arena");
    }
  }

  uint64_t ids_ = 1000;
  v1::Device device_;
};

TEST_F(HiddenModelsTest, ADeviceShowsTheModelsOfTheCaller) {
  const TenantAccess access(&control_->context(), &gate_);
  HideModelsOf(access, {.tenant = "a", .role = v1::USER}, &device_);
  EXPECT_THAT(device_.versions(), ElementsAre("net-a/1", "net-/1"));
  EXPECT_EQ(device_.memory().owners(0).owner(), "model net-a/1 / arena");
  EXPECT_EQ(device_.memory().owners(1).owner(),
            "model of another tenant/1 / arena");
  EXPECT_EQ(device_.memory().owners(2).owner(), "model net-/1 / arena");
}

TEST_F(HiddenModelsTest, AnOperatorSeesAll) {
  const TenantAccess access(&control_->context(), &gate_);
  const v1::Device before = device_;
  HideModelsOf(access, {.role = v1::OPERATOR}, &device_);
  EXPECT_EQ(device_.SerializeAsString(), before.SerializeAsString());
}

TEST_F(HiddenModelsTest, ATextMayNameSeveralModels) {
  const TenantAccess access(&control_->context(), &gate_);
  v1::GetMemorySummaryResponse summary;
  summary.set_text("1 MiB model net-b/1\n2 MiB model net-a/1\na model that");
  HideModels(access, {.tenant = "a", .role = v1::VIEWER}, &summary);
  EXPECT_EQ(summary.text(),
            "1 MiB model of another tenant/1\n2 MiB model net-a/1\na model "
            "that");
}

}  // namespace
}  // namespace gpupool::server
