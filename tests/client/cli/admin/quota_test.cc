// gpupool quota.
#include <nlohmann/json.hpp>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using QuotaTest = CommandTest;

TEST_F(QuotaTest, ATableOfAllPagesWithLimits) {
  EXPECT_EQ(Run({"quota"}), 0);
  EXPECT_EQ(out(),
            "TENANT\tJOBS\tDEVICES\tDEVICE-BYTES\tMODELS\tSTORED\n"
            "a\t3 of 50\t1\t512 B\t2 of 4\t1.5 KiB of 2.0 GiB\n"
            "b\t0\t0\t0 B\t0\t0 B\n");
}

TEST_F(QuotaTest, OneTenantIsAskedFor) {
  EXPECT_EQ(Run({"quota", "a", "--no-headers"}), 0);
  EXPECT_EQ(out(), "a\t3 of 50\t1\t512 B\t2 of 4\t1.5 KiB of 2.0 GiB\n");
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.quota_request.tenant(), "a");
}

TEST_F(QuotaTest, JsonHasEveryRow) {
  EXPECT_EQ(Run({"quota", "-o", "json"}), 0);
  const auto quota = nlohmann::json::parse(out());
  ASSERT_EQ(quota["tenants"].size(), 2u);
  EXPECT_EQ(quota["tenants"][0]["tenant"], "a");
}

}  // namespace
}  // namespace gpupool::client
