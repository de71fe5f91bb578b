/* A KV cache that grows to a million tokens without moving, and a second sequence that shares them.
 * Build it with //docs/examples:grow_and_share; run it with the plugins' folder in
 * MEMBRANE_PLUGIN_PATH. */
#include "docs/examples/setup.h"

#define MILLION UINT64_C(1000000)

int main(void)
{
    setup s;
    mbr_kv *kv;
    mbr_sequence *first, *second;
    mbr_kv_prefix *prefix;
    mbr_kv_strides before = {MBR_SIZED(mbr_kv_strides)}, after = before;
    mbr_kv_figures figures = {MBR_SIZED(mbr_kv_figures)};
    setup_open(&s, "host", UINT64_C(256) << 20);
    mbr_kv_request cache = {MBR_SIZED(mbr_kv_request), .binding = s.binding, .holder = s.holder,
        .geometry = "layers=2,heads=1,dim=16,bytes=1,planes=2", .max_tokens = 2 * MILLION};
    TRY(mbr_kv_create(s.manager, &cache, &kv, &error));

    mbr_sequence_request prompt = {MBR_SIZED(mbr_sequence_request), .stream = s.stream};
    TRY(mbr_sequence_create(kv, &prompt, &first, &error));
    TRY(mbr_sequence_strides(first, 0, &before, &error));
    for (uint64_t tokens = 0; tokens < MILLION; tokens += 100)
        TRY(mbr_sequence_append(first, 100, NULL, &error));
    TRY(mbr_sequence_strides(first, 0, &after, &error));
    printf("a million tokens, address %s\n", after.address == before.address ? "kept" : "moved");

    TRY(mbr_kv_prefix_create(first, MILLION, &prefix, &error));
    prompt.prefix = prefix;
    prompt.tokens = (prompt.prefix_tokens = MILLION) + 100;
    TRY(mbr_sequence_create(kv, &prompt, &second, &error));
    TRY(mbr_kv_read(kv, &figures, &error));
    printf("%lu tokens in %lu KiB, %lu KiB of them shared\n", figures.live_tokens,
        (figures.committed_bytes + figures.shared_bytes) >> 10, figures.shared_bytes >> 10);

    TRY(mbr_sequence_destroy(second, NULL, 0, &error));
    TRY(mbr_sequence_destroy(first, NULL, 0, &error));
    TRY(mbr_kv_prefix_destroy(prefix, &error));
    TRY(mbr_kv_destroy(kv, &error));
    setup_close(&s);
    return 0;
}
