// gpupool quota: what tenants have, and what the server allows them.
#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr int kQuotaPage = 1000;

absl::StatusOr<v1::GetQuotaResponse> FetchQuota(Client& client,
                                                const std::string& tenant) {
  v1::GetQuotaRequest request;
  request.set_tenant(tenant);
  request.set_page_size(kQuotaPage);
  v1::GetQuotaResponse all;
  do {
    const auto page = client.GetQuota(request);
    if (!page.ok()) return page.status();
    all.MergeFrom(*page);
    all.set_next_page_token(page->next_page_token());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return all;
}

// Returns "3 of 50", or "3" without a limit.
std::string CountText(const v1::QuotaUse& use) {
  return use.has_limit() ? absl::StrCat(use.used(), " of ", use.limit())
                         : absl::StrCat(use.used());
}

std::string BytesText(const v1::QuotaUse& use) {
  const std::string used = FormatBytes(use.used());
  return use.has_limit() ? absl::StrCat(used, " of ", FormatBytes(use.limit()))
                         : used;
}

void PrintQuota(const Context& context, const v1::GetQuotaResponse& quota) {
  Table table({{"TENANT"},
               {"JOBS", Table::kRight},
               {"DEVICES", Table::kRight},
               {"DEVICE-BYTES", Table::kRight},
               {"MODELS", Table::kRight},
               {"STORED", Table::kRight}});
  for (const v1::TenantQuota& row : quota.tenants()) {
    table.AddRow({row.tenant(), CountText(row.jobs()), CountText(row.devices()),
                  BytesText(row.device_bytes()), CountText(row.models()),
                  BytesText(row.stored_bytes())});
  }
  table.Print(context.out(), context.headers());
}

int Quota(Context& context, const std::string& tenant) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto quota = FetchQuota(**client, tenant);
  if (!quota.ok()) return context.Fail(quota.status());
  context.Print(*quota, [&] { PrintQuota(context, *quota); });
  return kOk;
}

}  // namespace

void AddQuota(CLI::App& app, Invocation& invocation) {
  auto tenant = std::make_shared<std::string>();
  CLI::App* verb = AddVerb(
      app, "quota",
      "Show what tenants have now, and what the server's --tenants allows "
      "them: jobs, devices and their bytes, loaded models and stored bytes.",
      "  gpupool quota\n  gpupool quota research.vision -o json");
  verb->add_option("TENANT", *tenant,
                   "Only this tenant (default: the token's, or all)");
  invocation.On(verb, [tenant](Context& c) { return Quota(c, *tenant); });
}

}  // namespace gpupool::client
