// tools_test DATA SCRATCH: statistics of tensors, and what the doctor says of files, from C.
#include <math.h>

#include "check.h"

static const char* data_folder;
static const char* scratch;

static const float first[4] = {1, 2, 3, 4};
static const float second[5] = {0, -1, NAN, INFINITY, -INFINITY};

// Two tensors of known numbers.
static const char* write_weights(void) {
  const char* path = path_in(scratch, "measured.safetensors");
  ballast_writer* writer = NULL;
  OK(ballast_writer_create(&writer));
  const uint64_t four = 4, five = 5;
  OK(ballast_writer_add_tensor(writer, "first", "f32", &four, 1, first, sizeof first));
  OK(ballast_writer_add_tensor(writer, "second", "f32", &five, 1, second, sizeof second));
  ballast_write_options options = {.struct_size = sizeof options, .overwrite = true};
  OK(ballast_writer_write(writer, path, &options));
  ballast_writer_close(writer);
  return path;
}

static uint64_t sum_of_bins(const ballast_tensor_statistics* measured) {
  uint64_t sum = measured->below + measured->above;
  for (size_t i = 0; i < measured->bins; ++i) sum += measured->histogram[i];
  return sum;
}

// ---------------------------------------------------------------- statistics

static void numbers_are_measured(void) {
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(write_weights(), NULL, &archive));
  ballast_statistics* statistics = NULL;
  OK(ballast_archive_statistics(archive, NULL, 0, 8, NULL, &statistics));
  ballast_archive_close(archive);  // the statistics live on
  CHECK(ballast_statistics_count(statistics) == 2);
  ballast_tensor_statistics measured = {.struct_size = sizeof measured};
  OK(ballast_statistics_get(statistics, 0, &measured));
  CHECK(measured.measured && measured.count == 4 && measured.nan == 0 && measured.zeros == 0);
  CHECK(measured.min == 1 && measured.max == 4 && measured.mean == 2.5 && fabs(measured.std - sqrt(1.25)) < 1e-12);
  CHECK(measured.bins == 8 && measured.histogram_low >= 1 && sum_of_bins(&measured) == 4);
  OK(ballast_statistics_get(statistics, 1, &measured));
  CHECK(measured.count == 5 && measured.zeros == 1 && measured.nan == 1 && measured.min == -1 && measured.max == 0);
  CHECK(measured.positive_infinity == 1 && measured.negative_infinity == 1 && sum_of_bins(&measured) == 2);
  OK(ballast_statistics_total(statistics, &measured));
  CHECK(measured.count == 9 && measured.min == -1 && measured.max == 4 && measured.nan == 1);
  FAILS(ballast_statistics_get(statistics, 2, &measured), BALLAST_INVALID_ARGUMENT, "there are 2");
  ballast_statistics_close(statistics);
  FAILS(ballast_statistics_get(statistics, 0, &measured), BALLAST_INVALID_ARGUMENT, "closed before");
}

static void some_tensors_are_measured_in_the_order_asked_for(void) {
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(write_weights(), NULL, &archive));
  const size_t chosen[2] = {1, 0}, wrong = 2;
  ballast_statistics* statistics = NULL;
  OK(ballast_archive_statistics(archive, chosen, 2, 0, NULL, &statistics));
  ballast_tensor_statistics measured = {.struct_size = sizeof measured};
  OK(ballast_statistics_get(statistics, 0, &measured));
  CHECK(measured.count == 5);
  ballast_statistics_close(statistics);
  FAILS(ballast_archive_statistics(archive, &wrong, 1, 0, NULL, &statistics), BALLAST_INVALID_ARGUMENT, "no tensor 2");
  FAILS(ballast_archive_statistics(archive, NULL, 1, 0, NULL, &statistics), BALLAST_INVALID_ARGUMENT, "NULL");
  FAILS(ballast_archive_statistics(archive, NULL, 0, SIZE_MAX, NULL, &statistics), BALLAST_INVALID_ARGUMENT, "bins");
  CHECK(statistics == NULL);
  ballast_cancel* cancel = NULL;
  OK(ballast_cancel_create(&cancel));
  ballast_cancel_request(cancel);
  ballast_work_options work = {.struct_size = sizeof work, .cancel = cancel};
  FAILS(ballast_archive_statistics(archive, NULL, 0, 0, &work, &statistics), BALLAST_CANCELLED, "");
  ballast_cancel_close(cancel);
  ballast_archive_close(archive);
}

static void what_has_no_numbers_is_not_measured(void) {
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(path_in(data_folder, "npz/opaque.npz"), NULL, &archive));
  ballast_statistics* statistics = NULL;
  OK(ballast_archive_statistics(archive, NULL, 0, 0, NULL, &statistics));
  size_t unmeasured = 0;
  for (size_t i = 0; i < ballast_statistics_count(statistics); ++i) {
    ballast_tensor_statistics measured = {.struct_size = sizeof measured};
    OK(ballast_statistics_get(statistics, i, &measured));
    if (measured.measured) continue;
    ++unmeasured;
    CHECK(measured.count == 0 && measured.histogram == NULL);
  }
  CHECK(unmeasured > 0);
  ballast_statistics_close(statistics);
  ballast_archive_close(archive);
}

// ---------------------------------------------------------------- the doctor

static ballast_diagnosis_info diagnosis_of(const char* path, ballast_diagnosis** diagnosis) {
  OK(ballast_doctor(path, NULL, diagnosis));
  ballast_diagnosis_info info = {.struct_size = sizeof info};
  OK(ballast_diagnosis_get(*diagnosis, &info));
  CHECK(info.what.size > 0);
  return info;
}

// The file without its last bytes.
static const char* cut_file(const char* path, size_t bytes) {
  static char content[4096];
  const char* cut = path_in(scratch, "cut.safetensors");
  FILE* from = fopen(path, "rb");
  CHECK(from != NULL);
  const size_t size = fread(content, 1, sizeof content, from);
  fclose(from);
  CHECK(size > bytes && size < sizeof content);
  FILE* to = fopen(cut, "wb");
  CHECK(to != NULL && fwrite(content, 1, size - bytes, to) == size - bytes);
  fclose(to);
  return cut;
}

static void a_sound_file_is_sound(void) {
  ballast_diagnosis* diagnosis = NULL;
  const ballast_diagnosis_info info = diagnosis_of(write_weights(), &diagnosis);
  CHECK(info.verdict == BALLAST_VERDICT_SOUND && strcmp(info.verdict_name, "sound") == 0);
  CHECK(is_text(info.format, "safetensors") && info.sound_tensors == 2 && info.complete && info.lost_tensors == 0);
  ballast_diagnosis_close(diagnosis);
}

static void of_a_file_that_was_cut_the_whole_tensors_are_saved(void) {
  const char* cut = cut_file(write_weights(), 2);
  ballast_diagnosis* diagnosis = NULL;
  const ballast_diagnosis_info info = diagnosis_of(cut, &diagnosis);
  CHECK(info.verdict == BALLAST_VERDICT_DAMAGED && info.sound_tensors == 1 && info.sound_bytes == 16);
  CHECK(info.lost_tensors == 1 && !info.complete);
  ballast_lost_tensor lost = {.struct_size = sizeof lost};
  OK(ballast_diagnosis_lost(diagnosis, 0, &lost));
  CHECK(is_text(lost.name, "second") && lost.code.size > 0 && lost.why.size > 0);
  FAILS(ballast_diagnosis_lost(diagnosis, 1, &lost), BALLAST_INVALID_ARGUMENT, "there are 1");
  ballast_findings* findings = NULL;
  OK(ballast_diagnosis_findings(diagnosis, &findings));
  ballast_diagnosis_close(diagnosis);
  CHECK(!ballast_findings_sound(findings) && ballast_findings_count(findings) > 0);
  ballast_findings_close(findings);

  const char* saved = path_in(scratch, "saved.npz");
  remove(saved);
  ballast_conversion* conversion = NULL;
  OK(ballast_rescue(cut, saved, NULL, &diagnosis, &conversion));
  CHECK(ballast_conversion_tensors(conversion) == 1);
  CHECK(is_text(ballast_conversion_file(conversion, 0), saved));
  ballast_conversion_close(conversion);
  ballast_diagnosis_close(diagnosis);
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(saved, NULL, &archive));
  float copy[4];
  OK(ballast_archive_read(archive, 0, copy, sizeof copy));
  CHECK(memcmp(copy, first, sizeof copy) == 0);
  ballast_archive_close(archive);
  FAILS(ballast_rescue(cut, saved, NULL, NULL, NULL), BALLAST_EXISTS, "saved.npz");
  FAILS(ballast_rescue(cut, path_in(scratch, "saved.unknown"), NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT,
        "unknown extension");
}

static void what_is_no_weight_file_is_named(void) {
  const char* page = path_in(scratch, "page.safetensors");
  FILE* file = fopen(page, "wb");
  CHECK(file != NULL && fputs("<!DOCTYPE html><html><body>404</body></html>", file) >= 0);
  fclose(file);
  ballast_diagnosis* diagnosis = NULL;
  const ballast_diagnosis_info info = diagnosis_of(page, &diagnosis);
  CHECK(info.verdict == BALLAST_VERDICT_FOREIGN && is_text(info.content, "html") && info.advice.size > 0);
  ballast_diagnosis_close(diagnosis);
  FAILS(ballast_rescue(page, path_in(scratch, "none.npz"), NULL, &diagnosis, NULL), BALLAST_CORRUPT, "nothing");
  CHECK(diagnosis == NULL);
  FAILS(ballast_doctor(path_in(scratch, "no such file"), NULL, &diagnosis), BALLAST_NOT_FOUND, "no such file");
}

int main(int count, char** arguments) {
  CHECK(count == 3);
  data_folder = arguments[1];
  scratch = arguments[2];
  numbers_are_measured();
  some_tensors_are_measured_in_the_order_asked_for();
  what_has_no_numbers_is_not_measured();
  a_sound_file_is_sound();
  of_a_file_that_was_cut_the_whole_tensors_are_saved();
  what_is_no_weight_file_is_named();
  return end_of_test("tools");
}
