-- STAND-IN for the extension pgpu, for tests: the signature and the messages of version 2.1.0.

CREATE FUNCTION create_vector_index_on_gpu(
    table_name text,
    column_name text,
    lists int[] DEFAULT NULL,
    sampling_factor bigint DEFAULT 256,
    batch_size bigint DEFAULT 100000,
    kmeans_iterations bigint DEFAULT 10,
    kmeans_nredo bigint DEFAULT 1,
    distance_operator text DEFAULT 'ip',
    skip_index_build bool DEFAULT false,
    spherical_centroids bool DEFAULT false,
    residual_quantization bool DEFAULT false
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    leaves int := lists[cardinality(lists)];
    samples bigint := leaves * sampling_factor;
BEGIN
    INSERT INTO pgpu.stand_in_calls VALUES ('2.1.0', jsonb_build_object(
        'table_name', table_name, 'column_name', column_name, 'lists', lists,
        'sampling_factor', sampling_factor, 'batch_size', batch_size, 'kmeans_iterations', kmeans_iterations,
        'kmeans_nredo', kmeans_nredo, 'distance_operator', distance_operator,
        'skip_index_build', skip_index_build, 'spherical_centroids', spherical_centroids,
        'residual_quantization', residual_quantization));
    IF sampling_factor >= 2 ^ 32 THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'value for sampling_factor can''t be negative: '
            'TryFromIntError(())';
    ELSIF cardinality(lists) NOT IN (1, 2) THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = format(
            'invalid lists parameter: %s. Must be either [n] or [n, m]', lists);
    END IF;
    RAISE INFO 'running GPU accelerated index build for %.%', table_name, column_name;
    IF sampling_factor < 40 THEN
        RAISE WARNING 'sampling factor % is very low; consider increasing to at least 40 to achieve useful '
            'clustering results', sampling_factor;
    END IF;
    RAISE INFO E'clustering properties:\n\t uses_batching: %\n\t lists: %', samples > batch_size, lists;
    PERFORM pgpu.stand_in_check(table_name, leaves, samples, distance_operator);
    RAISE INFO 'processing batch (1/1)';
    RAISE INFO 'Clustering vectors on GPU';
    RAISE INFO 'batches finished in 2.50ms';
    PERFORM pgpu.stand_in_centroids(
        table_name, column_name, samples, CASE cardinality(lists) WHEN 2 THEN lists[1] ELSE 0 END, leaves,
        spherical_centroids, 'int');
    RAISE INFO 'clustering all samples finished in 12.34ms. SKIPPING vectorchord index creation; '
        'skip_index_build=true is set';
END
$$;
