/* `membrane bench`: the figures of docs/performance.md. */
#ifndef MEMBRANE_TOOLS_BENCH_BENCH_H
#define MEMBRANE_TOOLS_BENCH_BENCH_H

/* The command. argv[0] is its own name. */
int mbr_cli_bench(int argc, char **argv);

#endif
