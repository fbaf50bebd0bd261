// gpupool usage: use of the devices by tenants, jobs and models.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <optional>
#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/time_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"

namespace gpupool::client {
namespace {

constexpr int kPage = 1000;
constexpr double kSecondsPerHour = 3600;
constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kJoulesPerKilowattHour = 3.6e6;

struct UsageOptions {
  std::string by = "tenant";
  std::string since, until, tenant;
  bool csv = false;
};

v1::UsageGrouping GroupingOf(const std::string& by) {
  if (by == "job") return v1::BY_JOB;
  return by == "model" ? v1::BY_MODEL : v1::BY_TENANT;
}

absl::Status SetTime(const char* option, const std::string& text,
                     google::protobuf::Timestamp* time) {
  const absl::StatusOr<absl::Time> parsed =
      ParseTimeArgument(option, text, absl::Now());
  if (!parsed.ok()) return parsed.status();
  time->set_seconds(absl::ToUnixSeconds(*parsed));
  return absl::OkStatus();
}

absl::StatusOr<v1::GetUsageRequest> UsageRequestOf(
    const UsageOptions& options) {
  v1::GetUsageRequest request;
  request.set_grouping(GroupingOf(options.by));
  request.set_tenant(options.tenant);
  request.set_page_size(kPage);
  absl::Status set;
  if (!options.since.empty()) {
    set = SetTime("--since", options.since, request.mutable_since());
  }
  if (set.ok() && !options.until.empty()) {
    set = SetTime("--until", options.until, request.mutable_until());
  }
  if (!set.ok()) return set;
  return request;
}

absl::StatusOr<v1::GetUsageResponse> Fetch(Client& client,
                                           v1::GetUsageRequest request) {
  v1::GetUsageResponse all;
  do {
    const auto page = client.GetUsage(request);
    if (!page.ok()) return page.status();
    all.MergeFrom(*page);
    all.set_next_page_token(page->next_page_token());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return all;
}

std::string ActivityOf(const v1::UsageRow& row) {
  return absl::AsciiStrToLower(v1::UsageActivity_Name(row.activity()));
}

std::vector<std::string> KeyOf(const v1::UsageRow& row, const std::string& by) {
  if (by == "tenant") return {row.tenant()};
  if (by == "model") return {row.model()};
  return {row.job_id() > 0 ? absl::StrCat(row.job_id()) : "", row.tenant(),
          row.model()};
}

// Returns a number with three decimals. A number below 1 has three significant
// digits, so that short runs do not print as 0.000.
std::string FormatSum(double sum) {
  constexpr int kMostDecimals = 12;
  int decimals = 3;
  for (double rest = sum; rest > 0 && rest < 0.1 && decimals < kMostDecimals;
       rest *= 10) {
    ++decimals;
  }
  return absl::StrFormat("%.*f", decimals, sum);
}

void PrintUsage(const Context& context, const v1::GetUsageResponse& usage,
                const std::string& by) {
  std::vector<Table::Column> columns;
  if (by == "job") columns.push_back({"JOB", Table::kRight});
  if (by != "model") columns.push_back({"TENANT"});
  if (by != "tenant") columns.push_back({"MODEL"});
  const std::vector<Table::Column> sums = {{"KIND"},
                                           {"ACTIVITY"},
                                           {"DEVICE-HOURS", Table::kRight},
                                           {"GIB-HOURS", Table::kRight},
                                           {"KWH", Table::kRight}};
  columns.insert(columns.end(), sums.begin(), sums.end());
  Table table(std::move(columns));
  for (const v1::UsageRow& row : usage.rows()) {
    std::vector<std::string> cells = KeyOf(row, by);
    cells.push_back(row.device_kind());
    cells.push_back(ActivityOf(row));
    cells.push_back(FormatSum(row.device_seconds() / kSecondsPerHour));
    cells.push_back(FormatSum(row.byte_seconds() / kGiB / kSecondsPerHour));
    cells.push_back(row.has_energy_joules() ? FormatSum(row.energy_joules() /
                                                        kJoulesPerKilowattHour)
                                            : "");
    table.AddRow(std::move(cells));
  }
  table.Print(context.out(), context.headers());
}

// Quotes the field as RFC 4180 requires.
std::string Field(std::string text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  size_t at = 0;
  while ((at = text.find('"', at)) != std::string::npos) {
    text.insert(at, 1, '"');
    at += 2;
  }
  return absl::StrCat("\"", text, "\"");
}

void PrintCsv(const Context& context, const v1::GetUsageResponse& usage) {
  std::ostream& out = *context.out().stream;
  if (context.headers()) {
    out << "tenant,job_id,model,device_kind,activity,device_seconds,"
           "byte_seconds,energy_joules,metered_device_seconds\n";
  }
  for (const v1::UsageRow& row : usage.rows()) {
    const std::vector<std::string> fields = {
        Field(row.tenant()),
        row.job_id() > 0 ? absl::StrCat(row.job_id()) : "",
        Field(row.model()),
        row.device_kind(),
        ActivityOf(row),
        absl::StrFormat("%.3f", row.device_seconds()),
        absl::StrFormat("%.0f", row.byte_seconds()),
        row.has_energy_joules() ? absl::StrFormat("%.1f", row.energy_joules())
                                : "",
        absl::StrFormat("%.3f", row.metered_device_seconds())};
    out << absl::StrJoin(fields, ",") << "\n";
  }
}

int Usage(Context& context, const UsageOptions& options) {
  const absl::StatusOr<v1::GetUsageRequest> request = UsageRequestOf(options);
  if (!request.ok()) return context.Fail(request.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto usage = Fetch(**client, *request);
  if (!usage.ok()) return context.Fail(usage.status());
  if (options.csv) {
    PrintCsv(context, *usage);
  } else {
    context.Print(*usage, [&] { PrintUsage(context, *usage, options.by); });
  }
  return kOk;
}

}  // namespace

void AddUsage(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<UsageOptions>();
  CLI::App* verb = AddVerb(
      app, "usage",
      "Show how much of the devices tenants, jobs or models have used: time, "
      "memory and, if the device reports it, energy. In whole hours.",
      "  gpupool usage --since 7d\n  gpupool usage --by job --csv > usage.csv");
  verb->add_option("--by", options->by,
                   "One row for each tenant, job or model (default: tenant)")
      ->check(CLI::IsMember({"tenant", "job", "model"}))
      ->type_name("WHAT");
  verb->add_option("--since", options->since,
                   "Begin: 7d or 12h ago, 2026-11-22, 2026-11-22T10:00:00Z "
                   "(default: the beginning)");
  verb->add_option("--until", options->until, "End (default: now)");
  verb->add_option("--tenant", options->tenant, "Only this tenant");
  verb->add_flag("--csv", options->csv,
                 "Comma-separated, in seconds, bytes and joules");
  invocation.On(verb, [options](Context& c) { return Usage(c, *options); });
}

}  // namespace gpupool::client
