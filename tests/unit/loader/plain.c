/* An ordinary shared object, no plugin. */
__attribute__((visibility("default"))) int plain(void);

int plain(void)
{
    return 0;
}
