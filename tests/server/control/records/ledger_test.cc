#include "server/control/records/ledger.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

v1::Job NewJob(uint64_t id, const std::string& request_id) {
  v1::Job job;
  job.set_id(id);
  job.set_request_id(request_id);
  job.mutable_spec()->set_tenant("lab");
  job.mutable_spec()->mutable_data()->set_dataset("digits");
  return job;
}

v1::ModelVersion NewVersion(uint64_t id, uint64_t number) {
  v1::ModelVersion version;
  version.set_id(id);
  version.set_model("digits");
  version.set_version(number);
  return version;
}

TEST(LedgerTest, AJobIsFoundByRequestAndDatasetUntilItIsRemoved) {
  Ledger ledger;
  ledger.AddJob(NewJob(1, "r1"));
  ledger.AddJob(NewJob(2, "r2"));
  EXPECT_EQ(ledger.FindRequest("lab", "r1")->job.id(), 1u);
  EXPECT_EQ(ledger.FindRequest("other", "r1"), nullptr);
  EXPECT_EQ(ledger.UserOfDataset("digits"), 1u);
  ledger.RemoveJob(1);
  EXPECT_EQ(ledger.FindRequest("lab", "r1"), nullptr);
  EXPECT_EQ(ledger.UserOfDataset("digits"), 2u);
  ledger.RemoveJob(2);
  EXPECT_EQ(ledger.UserOfDataset("digits"), 0u);
}

TEST(LedgerTest, AJobUsesItsValidationSetToo) {
  Ledger ledger;
  v1::Job job = NewJob(1, "r1");
  job.mutable_spec()->mutable_data()->set_validation("val");
  ledger.AddJob(job);
  job = NewJob(2, "r2");
  job.mutable_spec()->mutable_data()->set_validation("digits");
  ledger.AddJob(job);
  EXPECT_EQ(ledger.UserOfDataset("val"), 1u);
  EXPECT_EQ(ledger.UserOfDataset("digits"), 1u);
  ledger.RemoveJob(1);
  EXPECT_EQ(ledger.UserOfDataset("val"), 0u);
  EXPECT_EQ(ledger.UserOfDataset("digits"), 2u);
  ledger.RemoveJob(2);
  EXPECT_EQ(ledger.UserOfDataset("digits"), 0u);
}

TEST(LedgerTest, SyntheticRowsAreNobodysDataset) {
  Ledger ledger;
  v1::Job job = NewJob(1, "r1");
  job.mutable_spec()->mutable_data()->clear_dataset();
  job.mutable_spec()->mutable_data()->mutable_synthetic();
  ledger.AddJob(job);
  EXPECT_EQ(ledger.UserOfDataset(""), 0u);
  ledger.RemoveJob(1);
  EXPECT_EQ(ledger.FindRequest("lab", "r1"), nullptr);
}

TEST(LedgerTest, VersionZeroMeansTheNewest) {
  Ledger ledger;
  EXPECT_EQ(ledger.FindVersion("digits", 0), nullptr);
  ledger.AddVersion(NewVersion(7, 2));
  ledger.AddVersion(NewVersion(9, 1));
  EXPECT_EQ(ledger.FindVersion("digits", 0)->id(), 7u);
  EXPECT_EQ(ledger.FindVersion("digits", 1)->id(), 9u);
  EXPECT_EQ(ledger.FindVersion("digits", 3), nullptr);
  EXPECT_EQ(ledger.VersionsOf("digits"), (std::vector<uint64_t>{9, 7}));
  ledger.RemoveVersion(7);
  ledger.RemoveVersion(9);
  EXPECT_FALSE(ledger.HasModel("digits"));
}

}  // namespace
}  // namespace gpupool::server
