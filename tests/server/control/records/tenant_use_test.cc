#include "server/control/records/tenant_use.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "server/control/records/ledger.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

v1::Dataset DatasetOf(const std::string& tenant, uint64_t bytes) {
  v1::Dataset dataset;
  dataset.set_tenant(tenant);
  dataset.add_files()->set_total_bytes(bytes);
  return dataset;
}

v1::ModelVersion LoadedVersion(uint64_t id, const std::string& tenant,
                               const std::string& model) {
  v1::ModelVersion version;
  version.set_id(id);
  version.set_version(id);
  version.set_model(model);
  version.set_tenant(tenant);
  version.set_state(v1::READY);
  version.set_stored_bytes(10);
  return version;
}

// Returns an allowance of bytes for "a".
scheduler::TenantShares StoredLimit(uint64_t bytes) {
  scheduler::TenantShares shares;
  shares["a"].most_stored_bytes = bytes;
  return shares;
}

TEST(TenantUsesTest, WhatAPartHasCountsForThoseAboveIt) {
  TenantUses uses;
  uses.Add(DatasetOf("a.x", 5));
  uses.Add(DatasetOf("a", 1));
  uses.Add(LoadedVersion(1, "a.x", "m"));
  uses.AddBytes("ab", 7);
  v1::Job job;
  job.mutable_spec()->set_tenant("a.x");
  job.set_state(v1::QUEUED);
  uses.Add(job);
  job.set_state(v1::SUCCEEDED);
  uses.Add(job);
  EXPECT_EQ(uses.Of("a").stored_bytes, 16u);
  EXPECT_EQ(uses.Of("a").models, 1u);
  EXPECT_EQ(uses.Of("a").jobs, 1u);
  EXPECT_EQ(uses.Of("a.x").stored_bytes, 15u);
  EXPECT_EQ(uses.Of("ab").stored_bytes, 7u);
  EXPECT_EQ(uses.Of("b").stored_bytes, 0u);
}

TEST(TenantUsesTest, WhatHasNoTenantCountsForNobody) {
  TenantUses uses;
  uses.Add(DatasetOf("", 5));
  uses.AddBytes("", 5);
  EXPECT_TRUE(uses.all().empty());
}

TEST(TenantUsesTest, AnUnloadedVersionCountsWithItsBytesOnly) {
  TenantUses uses;
  v1::ModelVersion version = LoadedVersion(1, "a", "m");
  for (const v1::VersionState state :
       {v1::UNLOADED, v1::UNLOADING, v1::LOAD_FAILED}) {
    version.set_state(state);
    uses.Add(version);
  }
  EXPECT_EQ(uses.Of("a").models, 0u);
  EXPECT_EQ(uses.Of("a").stored_bytes, 30u);
}

TEST(BytesOfTest, ASumThatWouldOverflowStaysLarge) {
  v1::Dataset dataset = DatasetOf("a", ~uint64_t{0});
  dataset.add_files()->set_total_bytes(2);
  EXPECT_EQ(BytesOf(dataset), ~uint64_t{0});
}

TEST(CheckStoredBytesTest, TheLimitOfATenantHoldsForItsParts) {
  TenantUses uses;
  uses.Add(DatasetOf("a.x", 6));
  const scheduler::TenantShares shares = StoredLimit(10);
  EXPECT_TRUE(CheckStoredBytes(shares, uses, "a.x", 4).ok());
  EXPECT_TRUE(CheckStoredBytes(shares, uses, "b", 100).ok());
  EXPECT_TRUE(CheckStoredBytes(shares, uses, "", 100).ok());
  const absl::Status refused = CheckStoredBytes(shares, uses, "a.y", 5);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("tenant \"a\" stores 6 bytes of data sets, models and "
                        "uploads, may store 10, and asks for 5 more; delete "
                        "some with `gpupool datasets delete`"));
  EXPECT_FALSE(CheckStoredBytes(shares, uses, "a", ~uint64_t{0}).ok());
  EXPECT_FALSE(CheckStoredBytes(StoredLimit(5), uses, "a", 0).ok())
      << "the limit was lowered";
}

TEST(LimitsStoredBytesTest, AsksTheTenantAndThoseAboveIt) {
  const scheduler::TenantShares shares = StoredLimit(10);
  EXPECT_TRUE(LimitsStoredBytes(shares, "a"));
  EXPECT_TRUE(LimitsStoredBytes(shares, "a.x"));
  EXPECT_FALSE(LimitsStoredBytes(shares, "ab"));
  EXPECT_FALSE(LimitsStoredBytes(shares, ""));
  EXPECT_FALSE(LimitsStoredBytes({}, "a"));
}

class CheckModelLoadTest : public ::testing::Test {
 protected:
  CheckModelLoadTest() {
    scheduler::QueuePolicy policy;
    policy.tenants["a"].most_models = 1;
    ledger_.state.SetPolicy(policy);
  }

  absl::Status Check(const std::string& tenant, const std::string& model) {
    v1::ModelVersion version = LoadedVersion(9, tenant, model);
    version.set_state(v1::UNLOADED);
    return CheckModelLoad(ledger_, version);
  }

  Ledger ledger_;
};

TEST_F(CheckModelLoadTest, LoadedVersionsOfATenantAndItsPartsAreLimited) {
  EXPECT_TRUE(Check("a", "m").ok());
  ledger_.AddVersion(LoadedVersion(1, "b", "other"));
  EXPECT_TRUE(Check("a", "m").ok());
  ledger_.AddVersion(LoadedVersion(2, "a.x", "n"));
  EXPECT_TRUE(Check("", "m").ok());
  EXPECT_TRUE(Check("b", "m").ok());
  const absl::Status refused = Check("a.y", "m");
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      HasSubstr("tenant \"a\" has 1 versions of models loaded, may have "
                "1, and asks for 1 more; unload one with"));
}

TEST_F(CheckModelLoadTest, AVersionMayBeLoadedBesideTheOneThatItReplaces) {
  ledger_.AddVersion(LoadedVersion(1, "a", "m"));
  EXPECT_TRUE(Check("a", "m").ok());
  ledger_.AddVersion(LoadedVersion(2, "a", "m"));
  EXPECT_FALSE(Check("a", "m").ok());
}

TEST_F(CheckModelLoadTest, AVersionThatIsLoadedPasses) {
  ledger_.AddVersion(LoadedVersion(1, "a", "m"));
  ledger_.AddVersion(LoadedVersion(2, "a", "n"));
  EXPECT_TRUE(CheckModelLoad(ledger_, *ledger_.FindVersion(2)).ok());
}

}  // namespace
}  // namespace gpupool::server
